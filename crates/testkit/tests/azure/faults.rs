//! Faults on request.

use std::time::Duration;

use insula_testkit::azure::{Availability, Fault, Service};
use serde_json::json;

use crate::{CLIENT, GROUP, azure, put_group};

#[tokio::test]
async fn nth_request_gets_the_chosen_answer() {
    let azure = azure().await;
    azure.inflict(Fault::arm("PUT", "*/resourceGroups/*").nth(2).throttle(3));
    azure.inflict(Fault::arm("PUT", "*").of_client(CLIENT).nth(3).html(503));
    azure.inflict(Fault::arm("PUT", "*").nth(4).expired_token());
    let mut statuses = Vec::new();
    for _ in 0..5 {
        let answer = put_group(&azure).await.unwrap();
        if answer.status == 429 {
            assert_eq!(answer.headers["retry-after"], "3");
        }
        if answer.status == 503 {
            assert_eq!(answer.headers["content-type"], "text/html");
        }
        assert!(answer.headers.contains_key("x-ms-request-id"));
        statuses.push(answer.status);
    }
    assert_eq!(statuses, [201, 429, 503, 401, 200]);
}

#[tokio::test]
async fn answer_has_the_chosen_headers_and_shape() {
    let azure = azure().await;
    let date = "Wed, 21 Oct 2026 07:28:00 GMT";
    let body = json!({"Code": "NotFound", "Message": "none", "Details": [], "Innererror": null});
    let fault = Fault::arm("PUT", GROUP).respond(503, body.clone());
    azure.inflict(fault.header("Retry-After", date));
    let answer = put_group(&azure).await.unwrap();
    assert_eq!((answer.status, answer.json()), (503, body));
    assert_eq!(answer.headers["retry-after"], date);
}

#[tokio::test]
async fn lost_response_is_processed_and_reset_is_not() {
    let azure = azure().await;
    azure.inflict(Fault::arm("PUT", "*").times(1).reset());
    assert!(put_group(&azure).await.is_err());
    assert_eq!(azure.resource(GROUP), None);
    assert_eq!(azure.requests()[0].status, None);
    azure.inflict(Fault::arm("PUT", "*").times(1).lose_response());
    assert!(put_group(&azure).await.is_err());
    assert_eq!(azure.resource(GROUP).unwrap()["location"], json!("westus2"));
    assert_eq!(put_group(&azure).await.unwrap().status, 200);
}

#[tokio::test]
async fn request_hangs_until_the_faults_are_cleared() {
    let azure = azure().await;
    azure.inflict(Fault::arm("*", "*").hang());
    let (answer, ()) = tokio::join!(put_group(&azure), async {
        azure.await_puts(GROUP, 1).await.unwrap();
        assert_eq!(azure.resource(GROUP), None);
        azure.clear_faults();
    });
    assert_eq!(answer.unwrap().status, 201);
    azure.await_ready(GROUP).await.unwrap();
}

#[tokio::test]
async fn service_can_be_down_and_come_back() {
    let azure = azure().await;
    azure
        .set_availability(Service::Arm, Availability::Down)
        .await;
    let refused = put_group(&azure).await.unwrap_err();
    let refused = refused.downcast::<std::io::Error>().unwrap();
    assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
    azure
        .set_availability(Service::Arm, Availability::Silent)
        .await;
    let silence = tokio::time::timeout(Duration::from_millis(200), put_group(&azure)).await;
    assert!(silence.is_err());
    azure.set_availability(Service::Arm, Availability::Up).await;
    assert_eq!(put_group(&azure).await.unwrap().status, 201);
}
