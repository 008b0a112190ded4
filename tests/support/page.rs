//! What the HTML report holds for its script.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::read::GzDecoder;
use serde_json::Value;

pub(crate) fn data(page: &str) -> Value {
    let (_, rest) = page
        .split_once("<script type=\"text/plain\" id=\"data\">")
        .unwrap();
    let packed = STANDARD
        .decode(rest.split_once("</script>").unwrap().0)
        .unwrap();
    serde_json::from_reader(GzDecoder::new(packed.as_slice())).unwrap()
}
