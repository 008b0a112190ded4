//! Results of actions by the digest of the action: the server's action cache.

use bazel_remote_apis::build::bazel::remote::execution::v2::action_cache_client::ActionCacheClient;

use crate::reapi::client::Client;
use crate::reapi::fault::Fault;
use crate::reapi::proto::{
    ActionResult, Digest, GetActionResultRequest, UpdateActionResultRequest,
};

impl Client {
    /// None if there is none. What `inline` names may come with it.
    pub async fn result(
        &self,
        action: &Digest,
        inline: &[&str],
    ) -> Result<Option<ActionResult>, Fault> {
        let request = GetActionResultRequest {
            instance_name: self.instance.clone(),
            action_digest: Some(action.clone()),
            inline_output_files: inline.iter().map(|name| (*name).to_owned()).collect(),
            digest_function: self.abilities().await?.function.number(),
            ..GetActionResultRequest::default()
        };
        let answer = self.calling(0, || async {
            let mut client = ActionCacheClient::new(self.wire.clone());
            Ok(client
                .get_action_result(request.clone())
                .await?
                .into_inner())
        });
        match answer.await {
            Ok(result) => Ok(Some(result)),
            Err(Fault::Absent) => Ok(None),
            Err(fault) => Err(fault),
        }
    }

    /// All that the result names must be there already.
    pub async fn set_result(&self, action: &Digest, result: ActionResult) -> Result<(), Fault> {
        let request = UpdateActionResultRequest {
            instance_name: self.instance.clone(),
            action_digest: Some(action.clone()),
            action_result: Some(result),
            digest_function: self.abilities().await?.function.number(),
            ..UpdateActionResultRequest::default()
        };
        let answer = self.calling(0, || async {
            let mut client = ActionCacheClient::new(self.wire.clone());
            Ok(client.update_action_result(request.clone()).await?)
        });
        answer.await.map(drop)
    }
}
