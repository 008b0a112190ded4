//! Connections that acknowledge at once what arrives.
//!
//! Some servers send an answer in two parts, and hold the second back until the first is acknowledged (Nagle's algorithm). The
//! kernel puts that off for 40 ms, and a step takes five answers.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tower::util::MapResponse;

/// How a [`Prompt`] connection is made.
pub(super) type Connector = MapResponse<HttpConnector, fn(TokioIo<TcpStream>) -> TokioIo<Prompt>>;

pub(super) struct Prompt(TcpStream);

/// Encryption, where there is any, is the caller's.
pub(super) fn connector() -> Connector {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    MapResponse::new(tcp, |stream| TokioIo::new(Prompt(stream.into_inner())))
}

impl AsyncRead for Prompt {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.0).poll_read(cx, buf);
        // The kernel forgets it again. Where it cannot be set, answers come later.
        #[cfg(target_os = "linux")]
        let _ = rustix::net::sockopt::set_tcp_quickack(&self.0, true);
        polled
    }
}

impl AsyncWrite for Prompt {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write_vectored(cx, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.0.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::time::Duration;

    use tonic::service::Routes;
    use tonic::transport::{Endpoint, Identity, Server, ServerTlsConfig};

    use super::connector;
    use crate::reapi::tests::serve;
    use crate::reapi::{Address, Client, Fault, Patience, runtime};

    #[test]
    fn a_connection_that_nobody_takes_is_given_up_when_its_time_is_over() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        // One waits in line, and the kernel hears no others. It would try for two minutes.
        rustix::net::listen(&listener, 0).unwrap();
        let address = listener.local_addr().unwrap();
        let line: Vec<_> = (0..3)
            .map(|_| TcpStream::connect_timeout(&address, Duration::from_millis(200)))
            .collect();
        assert!(line.last().unwrap().is_err(), "the line is full");
        let limited = Endpoint::from_shared(format!("http://{address}")).unwrap();
        let limited = limited.connect_timeout(Duration::from_millis(300));
        let connected = runtime("test").unwrap().block_on(async {
            tokio::time::timeout(
                Duration::from_secs(60),
                limited.connect_with_connector(connector()),
            )
            .await
        });
        assert!(connected.expect("it is given up").is_err());
    }

    #[test]
    fn encryption_goes_through_and_is_refused_by_whom_the_certificate_is_not_for() {
        let dir = tempfile::tempdir().unwrap();
        let made = ["ours", "theirs"].map(|name| {
            let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".into()]).unwrap();
            std::fs::write(dir.path().join(name), made.cert.pem()).unwrap();
            made
        });
        let identity = Identity::from_pem(made[0].cert.pem(), made[0].signing_key.serialize_pem());
        let runtime = runtime("test").unwrap();
        let mut server = Server::builder()
            .tls_config(ServerTlsConfig::new().identity(identity))
            .unwrap();
        let port = serve(&runtime, server.add_routes(Routes::default()));
        let fault_with = |ca: &str| {
            let options = [("ca".to_owned(), dir.path().join(ca).display().to_string())].into();
            let address =
                Address::of("the remote", &format!("grpcs://127.0.0.1:{port}"), &options).unwrap();
            runtime.block_on(async {
                let client = Client::open(
                    &address,
                    Patience {
                        timeout: Duration::from_secs(20),
                        retries: 0,
                    },
                )
                .unwrap();
                client.function().await.unwrap_err()
            })
        };
        // Let in, it learns that the server does nothing at all.
        let fault = fault_with("ours");
        assert!(
            !matches!(fault, Fault::Passing(_)) && !fault.to_string().contains("certificate"),
            "{fault}"
        );
        let fault = fault_with("theirs");
        assert!(fault.to_string().contains("certificate"), "{fault}");
    }
}
