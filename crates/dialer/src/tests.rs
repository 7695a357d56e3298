use super::*;

use tokio::net::TcpListener;

fn dialer(allow: &[&str]) -> Dialer<u8> {
    let rules = AddressRules {
        allow: allow.iter().map(|block| block.parse().unwrap()).collect(),
        ..AddressRules::default()
    };
    let resolver = Resolver::with_lookup(|host, port| match host {
        "internal" => Ok(vec![SocketAddr::from(([127, 0, 0, 1], port))]),
        _ => Err(io::ErrorKind::NotFound.into()),
    });
    Dialer::new(rules, resolver)
}

async fn failed(dialer: &Dialer<u8>, reach: Reach, host: &str, port: u16) -> String {
    let connected = dialer.connect(&1, reach, host, port).await;
    connected.unwrap_err().to_string()
}

#[tokio::test]
async fn refused_names_and_missing_names_have_the_same_error() {
    let dialer = dialer(&[]);
    let expected = "no such host, or its address is not allowed";
    for host in ["internal", "missing"] {
        assert_eq!(failed(&dialer, Reach::Ruled, host, 443).await, expected);
    }
    assert_eq!(
        failed(&dialer, Reach::Any, "missing", 443).await,
        "no such host"
    );
}

#[tokio::test]
async fn refused_address_is_not_connected_to() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let open = listener.local_addr().unwrap().port();
    let unused = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let closed = unused.local_addr().unwrap().port();
    drop(unused);
    let strict = dialer(&[]);
    let expected = "address is not allowed";
    for port in [open, closed] {
        let why = failed(&strict, Reach::Ruled, "127.0.0.1", port).await;
        assert_eq!(why, expected);
    }
    let lenient = dialer(&["127.0.0.0/8"]);
    let connected = lenient.connect(&1, Reach::Ruled, "internal", open).await;
    assert_eq!(connected.unwrap().peer_addr().unwrap().port(), open);
    // The first connection that arrives is the allowed one.
    let (_, peer) = listener.accept().await.unwrap();
    assert!(peer.ip().is_loopback());
}
