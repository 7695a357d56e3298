//! `insula tenant access`.

use insula_apiserver::pipeline::revocation::DenyList;
use insula_apiserver::registry::access_records::CredentialKind;
use insula_core::{CredentialRef, Extra, Principal, Proof, Space, TenantBinding};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::revocation;
use super::show::Format;
use super::{Server, show};
use crate::client::ClientError;
use crate::duration;
use crate::failure::Failure;
use crate::output;

/// The arguments.
#[derive(clap::Args)]
pub struct Args {
    /// Name of the tenant, or `system`
    #[arg(value_parser = revocation::space)]
    name: Space,

    /// Output format
    #[arg(short, long, value_enum, default_value = "table")]
    output: Format,
}

/// The known credentials of a space.
#[derive(Debug, Default)]
pub struct Credentials {
    all: Vec<Credential>,
    /// How many were forgotten for newer ones.
    dropped: u64,
}

/// A known credential.
#[derive(Clone, Debug)]
pub struct Credential {
    /// The credential as recorded.
    pub object: Value,
    /// Whether it is revoked.
    pub revoked: bool,
}

/// Shows who has or had credentials of a tenant.
pub async fn run(server: &Server, args: Args) -> Result<(), Failure> {
    let space = &args.name;
    let attempted = format!("cannot show the access to tenant {space}");
    let failed = |error: ClientError| error.to_failure(&attempted);
    let revocations = server.client.get(&revocation::path(space)).await;
    let revocations = revocations.map_err(failed)?;
    let mut known = Credentials::load(server, space).await.map_err(failed)?;
    known.note_revocations(&revocations);
    output::print(&known.show(space, args.output)?)
}

impl Credentials {
    /// Loads what is recorded about a space.
    pub async fn load(server: &Server, space: &Space) -> Result<Self, ClientError> {
        let recorded = server.client.get(&revocation::access_path(space)).await;
        let mut recorded = match recorded {
            // No credential was used or issued yet.
            Err(ClientError::Refused { status, .. }) if status.as_u16() == 404 => json!({}),
            recorded => recorded?,
        };
        Ok(Self::read(&mut recorded))
    }

    fn read(recorded: &mut Value) -> Self {
        let credentials = match recorded["credentials"].take() {
            Value::Array(credentials) => credentials,
            _ => Vec::new(),
        };
        let credential = |object| Credential {
            object,
            revoked: false,
        };
        Self {
            all: credentials.into_iter().map(credential).collect(),
            dropped: recorded["dropped"].as_u64().unwrap_or(0),
        }
    }

    /// Notes which credentials are revoked.
    fn note_revocations(&mut self, list: &Value) {
        let mut denied = DenyList::default();
        let revocations = list["items"].as_array().into_iter().flatten();
        for revocation in revocations.filter_map(Value::as_object) {
            denied.add(revocation);
        }
        for credential in &mut self.all {
            credential.revoked = denied.denies(&credential.holder());
        }
    }

    /// Returns the credentials that a revocation with this spec denies.
    pub fn denied_by(&self, spec: &Value) -> Vec<Credential> {
        let mut denied = DenyList::default();
        if let Some(revocation) = json!({ "spec": spec }).as_object() {
            denied.add(revocation);
        }
        let all = self.all.iter();
        all.filter(|one| denied.denies(&one.holder()))
            .cloned()
            .collect()
    }

    fn show(&self, space: &Space, format: Format) -> Result<String, Failure> {
        match format {
            Format::Json | Format::Yaml => {
                let credentials: Vec<Value> = self.all.iter().map(Credential::to_value).collect();
                let object = json!({
                    "tenant": space.to_string(),
                    "credentials": credentials,
                    "dropped": self.dropped,
                });
                show::document(&object, format)
            }
            Format::Name => Ok(self.all.iter().map(|one| one.text("id") + "\n").collect()),
            Format::Table | Format::Wide => {
                let mut shown = table(&self.all, format == Format::Wide)?;
                if self.dropped > 0 {
                    shown.push_str(&format!("{} older ones are not shown\n", self.dropped));
                }
                Ok(shown)
            }
        }
    }
}

impl Credential {
    fn text(&self, member: &str) -> String {
        self.object[member].as_str().unwrap_or_default().to_owned()
    }

    fn time(&self, member: &str) -> Option<Timestamp> {
        self.text(member).parse().ok()
    }

    fn to_value(&self) -> Value {
        let mut value = self.object.clone();
        value["revoked"] = self.revoked.into();
        value
    }

    /// Returns the principal that the credential authenticates, as far as revocations ask.
    fn holder(&self) -> Principal {
        let proof = match CredentialKind::parse(&self.text("kind")) {
            Some(CredentialKind::Certificate) => Proof::Certificate,
            Some(CredentialKind::StaticToken) => Proof::StaticToken,
            Some(CredentialKind::OpenIdToken) => Proof::Oidc,
            Some(CredentialKind::ServiceAccountToken) | None => Proof::ServiceAccount,
        };
        Principal {
            user: self.text("user"),
            uid: None,
            groups: Vec::new(),
            extra: Extra::new(),
            home: Space::System,
            tenant_binding: TenantBinding::Name,
            proof,
            credential: CredentialRef {
                id: self.text("id").into(),
                issued: self.time("issued").map(Timestamp::as_second),
                expires: self.time("expires").map(Timestamp::as_second),
                ..CredentialRef::default()
            },
            impersonator: None,
        }
    }
}

/// Formats credentials as rows.
pub fn table(credentials: &[Credential], wide: bool) -> Result<String, Failure> {
    let now = Timestamp::now();
    let mut rows = vec![header(wide)];
    rows.extend(credentials.iter().map(|one| row(one, wide, now)));
    let rows: Vec<_> = rows.iter().map(Vec::as_slice).collect();
    Ok(output::table(&rows))
}

fn header(wide: bool) -> Vec<String> {
    let mut header = vec!["USER", "KIND", "LAST USED", "FROM", "EXPIRES", "REVOKED"];
    if wide {
        header.extend(["GROUPS", "ISSUED", "FIRST USED"]);
    }
    // The longest column comes last.
    header.push("ID");
    header.into_iter().map(str::to_owned).collect()
}

fn row(credential: &Credential, wide: bool, now: Timestamp) -> Vec<String> {
    let ago = |member: &str| match credential.time(member) {
        Some(time) => duration::short(now.duration_since(time).try_into().unwrap_or_default()),
        None => "<never>".to_owned(),
    };
    let expires = match credential.time("expires") {
        None => "<never>".to_owned(),
        Some(time) if time <= now => "expired".to_owned(),
        Some(time) => duration::short(time.duration_since(now).try_into().unwrap_or_default()),
    };
    let or_none = |text: String| match text.is_empty() {
        true => "<none>".to_owned(),
        false => text,
    };
    let mut row = vec![
        credential.text("user"),
        credential.text("kind"),
        ago("lastUsed"),
        or_none(credential.text("lastAddress")),
        expires,
        if credential.revoked { "yes" } else { "no" }.to_owned(),
    ];
    if wide {
        let groups = credential.object["groups"].as_array().into_iter().flatten();
        let groups: Vec<&str> = groups.filter_map(Value::as_str).collect();
        let issued = match credential.time("issued") {
            None => "<unknown>".to_owned(),
            Some(_) => ago("issued"),
        };
        row.extend([or_none(groups.join(",")), issued, ago("firstUsed")]);
    }
    row.push(credential.text("id"));
    row
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known() -> Credentials {
        let at = |seconds: i64| {
            let time = Timestamp::from_second(Timestamp::now().as_second() + seconds);
            time.unwrap().to_string()
        };
        let mut credentials = Credentials::read(&mut json!({
            "dropped": 3,
            "credentials": [
                {"id": "f1", "kind": "Certificate", "user": "dora", "groups": ["dev", "ops"],
                 "issued": at(-7200), "expires": at(7210), "firstUsed": at(-7200),
                 "lastUsed": at(-60), "lastAddress": "10.0.0.7"},
                {"id": "j1", "kind": "ServiceAccountToken", "issued": at(-7200),
                 "user": "system:serviceaccount:shop:robot", "expires": at(-3600)},
                {"id": "static-1", "kind": "StaticToken", "user": "eve", "lastUsed": at(-120)},
            ],
        }));
        credentials.note_revocations(&json!({"items": [
            {"spec": {"user": "eve"}},
            {"spec": {"token": "f1"}},
        ]}));
        credentials
    }

    #[test]
    fn credentials_are_shown_with_their_last_use_and_revocation() {
        let space = Space::parse("acme").unwrap();
        let shown = known().show(&space, Format::Table).unwrap();
        assert_eq!(
            shown,
            "USER                               KIND                  LAST USED   FROM       EXPIRES   REVOKED   ID\n\
             dora                               Certificate           60s         10.0.0.7   120m      no        f1\n\
             system:serviceaccount:shop:robot   ServiceAccountToken   <never>     <none>     expired   no        j1\n\
             eve                                StaticToken           2m          <none>     <never>   yes       static-1\n\
             3 older ones are not shown\n"
        );
        let json: Value =
            serde_json::from_str(&known().show(&space, Format::Json).unwrap()).unwrap();
        assert_eq!(json["credentials"][2]["revoked"], true);
        assert_eq!(json["credentials"][0]["lastAddress"], "10.0.0.7");
        assert_eq!(
            (&json["tenant"], &json["dropped"]),
            (&json!("acme"), &json!(3))
        );
        assert_eq!(
            known().show(&space, Format::Name).unwrap(),
            "f1\nj1\nstatic-1\n"
        );
        let wide = known().show(&space, Format::Wide).unwrap();
        assert!(wide.contains("dev,ops"), "{wide}");
    }

    #[test]
    fn credentials_that_a_revocation_concerns_are_found() {
        let ids = |spec: Value| {
            let denied = known().denied_by(&spec);
            denied.iter().map(|one| one.text("id")).collect::<Vec<_>>()
        };
        assert_eq!(ids(json!({"user": "dora"})), ["f1"]);
        assert_eq!(ids(json!({"certificate": "f1"})), ["f1"]);
        assert_eq!(ids(json!({"token": "j1"})), ["j1"]);
        let now = Timestamp::now().to_string();
        assert_eq!(ids(json!({"issuedBefore": now})), ["f1", "j1", "static-1"]);
        assert_eq!(ids(json!({"user": "mona"})), [""; 0]);
    }
}
