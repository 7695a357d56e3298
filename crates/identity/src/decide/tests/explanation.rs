//! Explanations of decisions.

use super::*;
use crate::explain::explain;

#[tokio::test]
async fn explanation_lists_steps_without_contents() {
    let mut world = world();
    let gold = json!({"selector": {"matchLabels": {"tier": "gold"}}});
    world.identities.insert("shared".to_owned(), identity(gold));
    let asked = question(by_identity());
    let explanation = explain(&asked, &world).await.unwrap();
    assert_eq!(
        explanation.to_string(),
        "- it references CloudIdentity shared, which alone decides\n\
         - CloudIdentity shared exists and is ready\n\
         - namespace team-a has the labels tier=gold\n\
         - its Secret exists\n\
         credential: CloudIdentity shared, for cloud.example:443"
    );
    world
        .namespaces
        .insert("team-a".to_owned(), BTreeMap::new());
    let explanation = explain(&asked, &world).await.unwrap();
    assert_eq!(
        explanation.to_string(),
        "- it references CloudIdentity shared, which alone decides\n\
         - CloudIdentity shared exists and is ready\n\
         - namespace team-a has the labels none\n\
         no credential: CloudIdentity shared does not allow namespace team-a (NamespaceNotAllowed)\n\
         hint: ask its owner to allow this namespace, or reference a Secret of your namespace"
    );
    let parent = Some(("Cloud team-a/prod".to_owned(), Reference::secret("mine")));
    let at = ("team-a".to_owned(), "mine".to_owned());
    world.secrets.get_mut(&at).unwrap().deleting = true;
    let explanation = explain(
        &question(CredentialReferences {
            parent,
            ..CredentialReferences::default()
        }),
        &world,
    )
    .await
    .unwrap();
    assert_eq!(
        explanation.to_string(),
        "- it references none; Cloud team-a/prod references Secret mine, which alone decides\n\
         - Secret mine is being deleted, and used until then\n\
         credential: Secret mine, for cloud.example:443"
    );
    let trust = Some(Trust::AnyCertificate);
    world.given.as_mut().unwrap().bound =
        AllowedEndpoints::Only(vec![(end("cloud.example"), trust)]);
    let references = CredentialReferences {
        namespace: Some("gone".to_owned()),
        operator: true,
        ..CredentialReferences::default()
    };
    let explanation = explain(&question(references), &world).await.unwrap();
    assert_eq!(
        explanation.to_string(),
        "- no credential is referenced: it gets Secret gone of its namespace if it exists, otherwise the operator's static credentials\n\
         - Secret gone does not exist\n\
         - the operator has static credentials\n\
         credential: the operator's static credentials, for cloud.example:443, where its owner accepts any certificate"
    );
    let explanation = explain(&question(CredentialReferences::default()), &world)
        .await
        .unwrap();
    assert_eq!(
        explanation.to_string(),
        "- no credential is referenced: it gets none\n\
         no credential: no credential is referenced (NoCredentials)\n\
         hint: reference CloudIdentity or a Secret of this namespace"
    );
}
