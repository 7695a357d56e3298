//! Caching, renewal and failures, in paused time.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::join_all;
use tokio::time::advance;

use super::*;

const HOUR: Duration = Duration::from_secs(3600);
const TIMEOUT: Duration = Duration::from_secs(8);

/// What a request does.
#[derive(Clone)]
enum Script {
    Token(&'static str, Duration),
    Fail,
    Hang,
    Panic,
}

#[derive(Clone, Default)]
struct Scripted {
    scripts: Arc<Mutex<VecDeque<Script>>>,
    requests: Arc<AtomicUsize>,
}

impl Scripted {
    fn tokens(scripts: impl IntoIterator<Item = Script>) -> (Tokens, Self) {
        let scripted = Self {
            scripts: Arc::new(Mutex::new(scripts.into_iter().collect())),
            requests: Arc::default(),
        };
        (Tokens::new(scripted.clone(), TIMEOUT), scripted)
    }

    fn requests(&self) -> usize {
        self.requests.load(Ordering::SeqCst)
    }
}

fn failure(why: &str) -> TokenError {
    TokenError::Unreachable {
        server: "authority".to_owned(),
        why: why.to_owned(),
    }
}

impl Fetch for Scripted {
    fn fetch(&self) -> BoxFuture<'_, Result<Token, TokenError>> {
        self.requests.fetch_add(1, Ordering::SeqCst);
        let script = self.scripts.lock().unwrap().pop_front();
        Box::pin(async move {
            match script.expect("a scripted request") {
                Script::Token(text, lifetime) => Ok(Token::new(text, lifetime).unwrap()),
                Script::Fail => Err(failure("broken")),
                Script::Hang => std::future::pending().await,
                Script::Panic => panic!("scripted"),
            }
        })
    }

    fn server(&self) -> String {
        "authority".to_owned()
    }
}

async fn get(tokens: &Tokens) -> Result<String, TokenError> {
    tokens.get().await.map(|token| token.reveal().to_owned())
}

/// Lets spawned tasks run.
async fn run_tasks() {
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn callers_share_one_request() {
    let (tokens, scripted) = Scripted::tokens([Script::Token("a", HOUR)]);
    let all = join_all((0..50).map(|_| get(&tokens))).await;
    assert_eq!(all, vec![Ok("a".to_owned()); 50]);
    assert_eq!(scripted.requests(), 1);
}

#[tokio::test(start_paused = true)]
async fn token_is_renewed_in_the_background_five_minutes_before_it_expires() {
    let scripts = [Script::Token("a", HOUR), Script::Token("b", HOUR)];
    let (tokens, scripted) = Scripted::tokens(scripts);
    assert_eq!(get(&tokens).await, Ok("a".to_owned()));
    advance(HOUR - RENEW_BEFORE - Duration::from_secs(1)).await;
    assert_eq!(get(&tokens).await, Ok("a".to_owned()));
    run_tasks().await;
    assert_eq!(scripted.requests(), 1);
    advance(Duration::from_secs(2)).await;
    assert_eq!(get(&tokens).await, Ok("a".to_owned()));
    run_tasks().await;
    assert_eq!(
        (get(&tokens).await, scripted.requests()),
        (Ok("b".to_owned()), 2)
    );
}

#[tokio::test(start_paused = true)]
async fn old_token_is_used_while_the_authority_is_silent() {
    let scripts = [
        Script::Token("a", HOUR),
        Script::Hang,
        Script::Hang,
        Script::Token("b", HOUR),
    ];
    let (tokens, scripted) = Scripted::tokens(scripts);
    get(&tokens).await.unwrap();
    advance(HOUR - RENEW_BEFORE).await;
    let started = Instant::now();
    for _ in 0..5 {
        assert_eq!(get(&tokens).await, Ok("a".to_owned()));
    }
    assert_eq!(
        (started.elapsed(), scripted.requests()),
        (Duration::ZERO, 1)
    );
    run_tasks().await;
    assert_eq!(scripted.requests(), 2);
    // The old token expires, and the authority is silent still: callers share the failure.
    advance(RENEW_BEFORE - EXPIRY_MARGIN).await;
    run_tasks().await;
    let expected = failure("no answer within 8 s");
    let all = join_all((0..20).map(|_| get(&tokens))).await;
    assert!(
        all.iter().all(|result| *result == Err(expected.clone())),
        "{all:?}"
    );
    advance(FAILURE_RETENTION + TIMEOUT).await;
    run_tasks().await;
    while get(&tokens).await != Ok("b".to_owned()) {
        advance(FAILURE_RETENTION).await;
    }
    assert_eq!(scripted.requests(), 4);
}

#[tokio::test(start_paused = true)]
async fn failure_is_shared_and_retried_later() {
    let (tokens, scripted) =
        Scripted::tokens([Script::Hang, Script::Fail, Script::Token("a", HOUR)]);
    let started = Instant::now();
    let all = join_all((0..50).map(|_| get(&tokens))).await;
    assert_eq!(all, vec![Err(failure("no answer within 8 s")); 50]);
    assert_eq!(started.elapsed(), TIMEOUT);
    // Callers that come next do not wait for the same timeout again.
    assert!(get(&tokens).await.is_err());
    assert_eq!((started.elapsed(), scripted.requests()), (TIMEOUT, 1));
    advance(FAILURE_RETENTION).await;
    assert_eq!(get(&tokens).await, Err(failure("broken")));
    advance(FAILURE_RETENTION).await;
    assert_eq!(get(&tokens).await, Ok("a".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn silent_authority_does_not_delay_other_accounts() {
    let (silent, _) = Scripted::tokens([Script::Hang]);
    let (other, _) = Scripted::tokens([Script::Token("a", HOUR)]);
    let waiting = tokio::spawn(async move { silent.get().await });
    let started = Instant::now();
    assert_eq!(get(&other).await, Ok("a".to_owned()));
    assert_eq!(started.elapsed(), Duration::ZERO);
    assert!(waiting.await.unwrap().is_err());
}

#[tokio::test(start_paused = true)]
async fn request_outlives_a_cancelled_caller() {
    let (tokens, scripted) = Scripted::tokens([Script::Token("a", HOUR)]);
    assert!(timeout(Duration::ZERO, tokens.get()).await.is_err());
    run_tasks().await;
    assert_eq!(
        (get(&tokens).await, scripted.requests()),
        (Ok("a".to_owned()), 1)
    );
}

#[tokio::test(start_paused = true)]
async fn discarded_token_is_replaced_once() {
    let (tokens, scripted) = Scripted::tokens([Script::Token("a", HOUR), Script::Token("b", HOUR)]);
    let first = tokens.get().await.unwrap();
    tokens.discard(&first);
    assert_eq!(get(&tokens).await, Ok("b".to_owned()));
    // Another request with the first token reports it later.
    tokens.discard(&first);
    assert_eq!(
        (get(&tokens).await, scripted.requests()),
        (Ok("b".to_owned()), 2)
    );
}

#[tokio::test(start_paused = true)]
async fn panic_of_a_request_is_a_failure() {
    let (tokens, _) = Scripted::tokens([Script::Panic, Script::Token("a", HOUR)]);
    assert_eq!(
        get(&tokens).await,
        Err(failure("the request was cancelled"))
    );
    assert_eq!(get(&tokens).await, Ok("a".to_owned()));
}

#[test]
fn responses_with_numbers_as_texts_are_read() {
    let body = |expires: Value| serde_json::json!({"access_token": "a", "expires_in": expires});
    for (expires, is_token) in [
        (Value::from(3599), true),
        (Value::from("3599"), true),
        (Value::from(u64::MAX), true),
        (Value::Null, false),
        (Value::from(-1), false),
        (Value::from("soon"), false),
    ] {
        let token = Token::of_response(&body(expires.clone()));
        assert_eq!(token.is_some(), is_token, "{expires}");
    }
    assert_eq!(Token::new("a b", HOUR), None);
    assert_eq!(Token::new("", HOUR), None);
    let token = Token::new("s3cret", HOUR).unwrap();
    assert!(!format!("{token:?}").contains("s3cret"));
}
