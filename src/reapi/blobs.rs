//! Blobs to a server and from it: many small ones in a batch, a large one as a stream, each only if it is needed.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bazel_remote_apis::build::bazel::remote::execution::v2::content_addressable_storage_client::ContentAddressableStorageClient;
use bazel_remote_apis::google::bytestream::ReadRequest;
use bazel_remote_apis::google::bytestream::byte_stream_client::ByteStreamClient;
use bazel_remote_apis::google::rpc::Status;
use futures_util::{StreamExt as _, TryStreamExt as _};

use crate::base;
use crate::reapi::client::{Abilities, Client, Wire};
use crate::reapi::fault::Fault;
use crate::reapi::hash::Function;
use crate::reapi::proto::{
    BatchReadBlobsRequest, BatchUpdateBlobsRequest, Digest, FindMissingBlobsRequest,
    batch_update_blobs_request, compressor,
};
use crate::reapi::transfer::{Arrival, Unpacked, pieces};

/// Digests in one query.
const QUERIED: usize = 2_000;
/// What a blob takes in a message besides its content, bytes.
const HEAD: u64 = 200;
/// Streams at a time.
const STREAMS: usize = 4;
/// Shorter streams are not compressed.
const WORTH_COMPRESSING: i64 = 64 << 10;

/// What is to be there.
#[derive(Debug, Clone)]
pub struct Blob {
    pub digest: Digest,
    pub content: Content,
}

#[derive(Debug, Clone)]
pub enum Content {
    Bytes(Vec<u8>),
    File(PathBuf),
    /// Only the server has it.
    There,
}

/// What is to be fetched, and the file that it is written to.
#[derive(Debug, Clone)]
pub struct Wanted {
    pub digest: Digest,
    /// Its BLAKE3, if that must be right too.
    pub content: Option<base::Digest>,
    pub to: PathBuf,
}

impl Blob {
    /// One that the server made.
    pub fn there(digest: Digest) -> Self {
        Self {
            digest,
            content: Content::There,
        }
    }

    pub fn of_message(message: &impl prost::Message, function: Function) -> Self {
        Self::of_bytes(message.encode_to_vec(), function)
    }

    pub fn of_bytes(bytes: Vec<u8>, function: Function) -> Self {
        Self {
            digest: function.of(&bytes),
            content: Content::Bytes(bytes),
        }
    }
}

impl Content {
    fn all(&self) -> Result<Vec<u8>, Fault> {
        match self {
            Self::Bytes(bytes) => Ok(bytes.clone()),
            Self::File(path) => std::fs::read(path).map_err(Fault::io("read", path)),
            Self::There => Err(Fault::Absent),
        }
    }
}

impl Abilities {
    /// Whether a blob travels with others.
    fn is_small(&self, digest: &Digest) -> bool {
        size(digest) <= self.most_in_batch / 4
    }
}

/// Not below zero, whatever a server says.
fn size(digest: &Digest) -> u64 {
    u64::try_from(digest.size_bytes).unwrap_or(0)
}

impl Client {
    fn store(&self) -> ContentAddressableStorageClient<Wire> {
        // The answer to a batch is a little more than the batch.
        ContentAddressableStorageClient::new(self.wire.clone()).max_decoding_message_size(16 << 20)
    }

    /// Those of the digests that the server lacks.
    pub async fn missing(&self, digests: Vec<Digest>) -> Result<HashSet<String>, Fault> {
        let digest_function = self.abilities().await?.function.number();
        let mut missing = HashSet::new();
        for part in digests.chunks(QUERIED) {
            let request = FindMissingBlobsRequest {
                instance_name: self.instance.clone(),
                blob_digests: part.to_vec(),
                digest_function,
            };
            let answer = self.calling(0, || async {
                Ok(self
                    .store()
                    .find_missing_blobs(request.clone())
                    .await?
                    .into_inner())
            });
            missing.extend(
                answer
                    .await?
                    .missing_blob_digests
                    .into_iter()
                    .map(|digest| digest.hash),
            );
        }
        Ok(missing)
    }

    /// Sends those that the server lacks, each once; how many bytes that were. An error if it lacks one of its own.
    pub async fn upload(&self, mut blobs: Vec<Blob>) -> Result<u64, Fault> {
        let abilities = self.abilities().await?;
        let mut known = HashSet::new();
        // Nothing is everywhere.
        blobs.retain(|blob| blob.digest.size_bytes > 0 && known.insert(blob.digest.hash.clone()));
        if blobs.is_empty() {
            return Ok(0);
        }
        let missing = self
            .missing(blobs.iter().map(|blob| blob.digest.clone()).collect())
            .await?;
        blobs.retain(|blob| missing.contains(&blob.digest.hash));
        base::ensure(
            !blobs
                .iter()
                .any(|blob| matches!(blob.content, Content::There)),
            || Fault::Absent,
        )?;
        let sent = blobs.iter().map(|blob| size(&blob.digest)).sum();
        let (small, large): (Vec<_>, Vec<_>) = blobs
            .into_iter()
            .partition(|blob| abilities.is_small(&blob.digest));
        for batch in batches(small, abilities.most_in_batch, |blob| &blob.digest) {
            self.send_batch(&batch, abilities).await?;
        }
        let streams = futures_util::stream::iter(large)
            .map(|blob| async move { self.send_stream(&blob, abilities).await });
        streams
            .buffer_unordered(STREAMS)
            .try_collect::<Vec<()>>()
            .await?;
        Ok(sent)
    }

    async fn send_batch(&self, batch: &[Blob], abilities: Abilities) -> Result<(), Fault> {
        let one = |blob: &Blob| {
            let digest = Some(blob.digest.clone());
            let data = blob.content.all()?;
            Ok(batch_update_blobs_request::Request {
                digest,
                data,
                ..Default::default()
            })
        };
        let request = BatchUpdateBlobsRequest {
            instance_name: self.instance.clone(),
            requests: batch.iter().map(one).collect::<Result<_, Fault>>()?,
            digest_function: abilities.function.number(),
        };
        let bytes = batch.iter().map(|blob| size(&blob.digest)).sum();
        self.calling(bytes, || async {
            let answer = self
                .store()
                .batch_update_blobs(request.clone())
                .await?
                .into_inner();
            are_well(answer.responses.iter().map(|one| &one.status))?;
            let fewer = || Fault::Failed("it answered for fewer blobs than it was sent".into());
            base::ensure(answer.responses.len() == request.requests.len(), fewer)
        })
        .await
    }

    /// The name under which a blob is written or read. `before` is empty or ends with a slash.
    fn resource(
        &self,
        before: &str,
        digest: &Digest,
        abilities: Abilities,
        is_compressed: bool,
    ) -> String {
        let instance = if self.instance.is_empty() {
            String::new()
        } else {
            format!("{}/", self.instance)
        };
        let kind = if is_compressed {
            "compressed-blobs/zstd"
        } else {
            "blobs"
        };
        let Digest { hash, size_bytes } = digest;
        format!(
            "{instance}{before}{kind}/{}{hash}/{size_bytes}",
            abilities.function.prefix()
        )
    }

    async fn send_stream(&self, blob: &Blob, abilities: Abilities) -> Result<(), Fault> {
        let is_compressed = abilities.zstd && blob.digest.size_bytes >= WORTH_COMPRESSING;
        self.calling(size(&blob.digest), || async {
            let before = format!("uploads/{}/", upload_id());
            let name = self.resource(&before, &blob.digest, abilities, is_compressed);
            let failed = Arc::default();
            let pieces = pieces(
                name,
                blob.content.clone(),
                is_compressed,
                Arc::clone(&failed),
            )?;
            let answer = ByteStreamClient::new(self.wire.clone())
                .write(futures_util::stream::iter(pieces))
                .await;
            // A file that cannot be read ends the stream, which is no doing of the server's.
            if let Some(why) = base::lock(&failed).take() {
                return Err(Fault::Local(why));
            }
            let committed = answer?.into_inner().committed_size;
            let size = blob.digest.size_bytes;
            let fewer = || Fault::Passing(format!("it accepted {committed} of {size} bytes"));
            base::ensure(is_compressed || committed == size, fewer)
        })
        .await
    }

    /// Fetches all of them. What is written in the end is what was requested, or the call fails.
    pub async fn fetch(&self, wanted: Vec<Wanted>) -> Result<u64, Fault> {
        let abilities = self.abilities().await?;
        let bytes = wanted.iter().map(|one| size(&one.digest)).sum();
        let (small, large): (Vec<_>, Vec<_>) = wanted
            .into_iter()
            .partition(|one| abilities.is_small(&one.digest));
        for batch in batches(small, abilities.most_in_batch, |one| &one.digest) {
            self.fetch_batch(&batch, abilities).await?;
        }
        let streams = futures_util::stream::iter(large)
            .map(|one| async move { self.fetch_stream(&one, abilities).await });
        streams
            .buffer_unordered(STREAMS)
            .try_collect::<Vec<()>>()
            .await?;
        Ok(bytes)
    }

    /// The content of a small blob, by way of a file in `dir`.
    pub async fn read(&self, digest: Digest, dir: &Path) -> Result<Vec<u8>, Fault> {
        let to = dir.join("blob");
        self.fetch(vec![Wanted {
            digest,
            content: None,
            to: to.clone(),
        }])
        .await?;
        std::fs::read(&to).map_err(Fault::io("read", &to))
    }

    async fn fetch_batch(&self, batch: &[Wanted], abilities: Abilities) -> Result<(), Fault> {
        let digests: HashMap<_, _> = batch
            .iter()
            .map(|one| (one.digest.hash.clone(), one.digest.clone()))
            .collect();
        let digests: Vec<Digest> = digests
            .into_values()
            .filter(|digest| digest.size_bytes > 0)
            .collect();
        let mut held: HashMap<String, Vec<u8>> = HashMap::new();
        if !digests.is_empty() {
            let bytes = digests.iter().map(size).sum();
            let request = BatchReadBlobsRequest {
                instance_name: self.instance.clone(),
                digests,
                acceptable_compressors: vec![compressor::Value::Identity.into()],
                digest_function: abilities.function.number(),
            };
            let answer = self.calling(bytes, || async {
                let answer = self
                    .store()
                    .batch_read_blobs(request.clone())
                    .await?
                    .into_inner();
                are_well(answer.responses.iter().map(|one| &one.status))?;
                Ok(answer)
            });
            let blobs = answer.await?.responses.into_iter();
            held.extend(blobs.filter_map(|one| Some((one.digest?.hash, one.data))));
        }
        for one in batch {
            let data = match one.digest.size_bytes {
                0 => &Vec::new(),
                _ => held.get(&one.digest.hash).ok_or(Fault::Absent)?,
            };
            let mut arrival = Arrival::new(one, abilities)?;
            arrival.take(data)?;
            arrival.end()?;
        }
        Ok(())
    }

    async fn fetch_stream(&self, one: &Wanted, abilities: Abilities) -> Result<(), Fault> {
        let is_compressed = abilities.zstd && one.digest.size_bytes >= WORTH_COMPRESSING;
        let resource_name = self.resource("", &one.digest, abilities, is_compressed);
        self.calling(size(&one.digest), || async {
            let request = ReadRequest {
                resource_name: resource_name.clone(),
                ..ReadRequest::default()
            };
            let mut client =
                ByteStreamClient::new(self.wire.clone()).max_decoding_message_size(16 << 20);
            let mut stream = client.read(request).await?.into_inner();
            let arrival = Arrival::new(one, abilities)?;
            let mut unpacked = Unpacked::new(arrival, is_compressed)?;
            while let Some(piece) = stream.message().await? {
                unpacked.take(&piece.data)?;
            }
            unpacked.end()
        })
        .await
    }
}

/// What failed first of a batch. What may pass is seen for each blob, so that the whole request is repeated.
fn are_well<'a>(mut statuses: impl Iterator<Item = &'a Option<Status>>) -> Result<(), Fault> {
    let failed = statuses.find_map(|status| status.as_ref().filter(|status| status.code != 0));
    failed.map_or(Ok(()), |status| {
        Err(Fault::of_code(status.code, &status.message))
    })
}

/// Parts of no more bytes than one message may have.
fn batches<T>(all: Vec<T>, most: u64, digest: impl Fn(&T) -> &Digest) -> Vec<Vec<T>> {
    let mut batches = Vec::<Vec<T>>::new();
    let mut room = 0;
    for one in all {
        let needs = size(digest(&one)) + HEAD;
        if needs > room || batches.is_empty() {
            batches.push(Vec::new());
            room = most;
        }
        room = room.saturating_sub(needs);
        batches
            .last_mut()
            .expect("BUG: one was just made")
            .push(one);
    }
    batches
}

/// Names an upload, so that a repeated one is another. A UUID of version 4.
fn upload_id() -> String {
    let mut bytes: [u8; 16] = rand::random();
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    format!(
        "{}-{}-{}-{}-{}",
        &hex[..8],
        &hex[8..12],
        &hex[12..16],
        &hex[16..20],
        &hex[20..]
    )
}
