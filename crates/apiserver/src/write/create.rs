//! A new object.

use std::sync::Arc;

use bytes::Bytes;
use insula_admission::Operation;
use insula_core::Space;
use insula_custom::Verdict;
use insula_kinds::{FieldError, Object, prepare, time};
use insula_store::{Entry, Outcome, Transaction};
use uuid::Uuid;

use super::admission::lifecycle::Lifecycle;
use super::admission::{Admission, Phase};
use super::modify::Owner;
use super::ownership::Ownership;
use super::{Done, metadata, rules};
use crate::codec::input::Sent;
use crate::pipeline::authorize::Caller;
use crate::registry::built_in;
use crate::registry::resource::Resource;
use crate::registry::{Address, Registry};
use crate::request::query::{Query, WriteOptions};
use crate::status::{Result, StatusError};
use crate::write::allocate::Allocator;
use crate::write::bootstrap_objects;
use crate::write::names;
use crate::write::quota;
use insula_cache::Stored;
use insula_cache::expiry;
use insula_kinds::core_kind;

/// How many names are tried for a `generateName`.
const NAMES_TRIED: usize = 8;

/// What is said to names that some kinds allow and no key has room for.
const LONGEST_NAME: usize = 1024;

/// Creates the object in the body.
pub async fn create(
    registry: &Registry,
    granted: Caller<'_>,
    query: &Query,
    sent: &Sent,
) -> Result<Done> {
    let options = WriteOptions::read(query, "CreateOptions")?;
    let path = granted.path();
    let written = rules::read(granted, sent, &path.kind, options.validation).await?;
    let draft = CreateRequest {
        kind: &path.kind,
        space: granted.space()?,
        namespace: path.namespace.as_deref(),
        object: written.object,
        by: Some(granted),
        owner: Owner::Caller,
        dry_run: options.dry_run,
    };
    match draft.create(registry).await {
        Ok(mut done) => {
            done.warnings.splice(0..0, written.warnings);
            Ok(done)
        }
        Err(refusal) => Err(refusal.warned(written.warnings)),
    }
}

/// Creates an object of `kind`, as it was read.
pub async fn create_object(
    registry: &Registry,
    kind: &Resource,
    space: &Space,
    namespace: Option<&str>,
    object: Object,
    by: Option<Caller<'_>>,
    dry_run: bool,
) -> Result<Done> {
    let draft = CreateRequest {
        kind,
        space,
        namespace,
        object,
        by,
        owner: Owner::Caller,
        dry_run,
    };
    draft.create(registry).await
}

/// An object that is to come about.
pub(super) struct CreateRequest<'a> {
    /// In the version that the caller speaks.
    pub kind: &'a Resource,
    pub space: &'a Space,
    pub namespace: Option<&'a str>,
    pub object: Object,
    /// Who asks; nobody if it is the server itself.
    pub by: Option<Caller<'a>>,
    /// Who owns the fields.
    pub owner: Owner<'a>,
    pub dry_run: bool,
}

impl CreateRequest<'_> {
    pub(super) async fn create(mut self, registry: &Registry) -> Result<Done> {
        let kind = self.kind;
        let revision = metadata::text(&self.object, "resourceVersion").unwrap_or("0");
        if revision != "0" {
            let why = "resourceVersion should not be set on objects to be created";
            return Err(StatusError::plain_error(why));
        }
        rules::default(kind, &mut self.object)?;
        let now = time::now();
        stamp(&mut self.object, &now);
        if let Owner::Caller = self.owner {
            let ownership = Ownership::new(registry, self.by, kind, None);
            ownership.note_new(&mut self.object).await?;
        }
        rules::to_judged(kind, &mut self.object);
        self.mutate(registry).await?;
        let stored = kind.storage();
        if stored.is(core_kind("limitranges"))
            && metadata::text(&self.object, "generateName").is_none()
        {
            // The one kind that needs no name: it is looked for in its namespace only.
            let metadata = metadata::of(&mut self.object);
            let name = metadata.entry("name").or_insert_with(|| "".into());
            if name == "" {
                *name = Uuid::new_v4().to_string().into();
            }
        }
        let generate = match metadata::text(&self.object, "name") {
            Some(_) => None,
            None => metadata::text(&self.object, "generateName").map(str::to_owned),
        };
        let mut address = Address {
            kind: stored,
            space: self.space.clone(),
            namespace: self.namespace.map(str::to_owned),
            name: metadata::text(&self.object, "name")
                .unwrap_or("")
                .to_owned(),
        };
        let Some(prefix) = generate else {
            let object = std::mem::take(&mut self.object);
            return self.commit(registry, &address, object, &now).await;
        };
        for _ in 0..NAMES_TRIED {
            address.name = names::generated(&prefix);
            metadata::of(&mut self.object).insert("name".to_owned(), address.name.as_str().into());
            let object = self.object.clone();
            match self.commit(registry, &address, object, &now).await {
                Err(refusal) if refusal.is_taken() => {}
                done => return done,
            }
        }
        Err(StatusError::no_name_found(kind, &address.name))
    }

    /// Runs the mutating admission steps, before a name is generated.
    async fn mutate(&mut self, registry: &Registry) -> Result<()> {
        let address = Address {
            kind: self.kind.storage(),
            space: self.space.clone(),
            namespace: self.namespace.map(str::to_owned),
            name: metadata::text(&self.object, "name")
                .unwrap_or("")
                .to_owned(),
        };
        let mut object = std::mem::take(&mut self.object);
        let admitted = self
            .admission(registry, &address, &mut object)
            .run(Phase::Mutate)
            .await;
        self.object = object;
        admitted
    }

    fn admission<'a>(
        &'a self,
        registry: &'a Registry,
        address: &'a Address,
        object: &'a mut Object,
    ) -> Admission<'a> {
        Admission {
            registry,
            caller: self.by,
            operation: Operation::Create,
            resource: self.kind,
            address,
            subresource: None,
            dry_run: self.dry_run,
            old: None,
            object,
            lifecycle: None,
        }
    }

    async fn commit(
        &self,
        registry: &Registry,
        address: &Address,
        mut object: Object,
        now: &str,
    ) -> Result<Done> {
        let kind = self.kind;
        if built_in::is_one(&address.kind, &address.within()) {
            return Err(StatusError::already_exists(kind, &address.name));
        }
        metadata::place(&mut object, kind, address)?;
        let mut admission = self.admission(registry, address, &mut object);
        admission.run(Phase::Name).await?;
        complete(registry, kind, address, admission.object, now);
        admission.run(Phase::Content).await?;
        let Verdict {
            mut errors,
            warnings,
        } = rules::judge_new(self.by, kind, admission.object).await?;
        if errors.is_empty() && registry.key(address).len() > Transaction::MAX_KEY_BYTES {
            errors.push(FieldError::too_long("metadata.name", LONGEST_NAME));
        }
        if !errors.is_empty() {
            return Err(StatusError::invalid(kind, &address.name, &errors).warned(warnings));
        }
        admission.run(Phase::Validate).await?;
        let lifecycle = admission.lifecycle.take();
        let lifecycle =
            lifecycle.ok_or_else(|| StatusError::internal("no lifecycle was checked"))?;
        let value = rules::stored(registry, self.by, kind, object).await?;
        let object = put(registry, self, address, lifecycle, value, now).await?;
        Ok(Done {
            object,
            created: true,
            warnings,
        })
    }
}

/// Puts the object where none is, for as long as its space and namespace let it.
async fn put(
    registry: &Registry,
    draft: &CreateRequest<'_>,
    address: &Address,
    mut lifecycle: Lifecycle,
    value: Bytes,
    now: &str,
) -> Result<Arc<Stored>> {
    let (kind, dry_run) = (draft.kind, draft.dry_run);
    let write = quota::Write {
        registry,
        kind,
        address,
        subresource: None,
        old: None,
        new: &value,
        by: draft.by,
    };
    let _turn = write.turn().await;
    loop {
        let stored = expiry::stored(&address.kind, value.clone());
        let mut transaction = Transaction::create(registry.key(address), stored);
        transaction = lifecycle.guard(registry, transaction);
        let guards = transaction.checks().len();
        if address.kind.is(core_kind("namespaces")) {
            transaction =
                bootstrap_objects::keep_apart_from_tenants(registry, transaction, address);
            transaction = bootstrap_objects::furnish_namespace(registry, transaction, address, now);
        } else if address.kind.is(core_kind("tenants")) {
            transaction =
                bootstrap_objects::keep_apart_from_namespaces(registry, transaction, address);
            transaction = bootstrap_objects::furnish(registry, transaction, &address.name, now)?;
        }
        let names_apart = guards..transaction.checks().len();
        transaction = write.charge(transaction).await?;
        if dry_run {
            transaction = checks_of(&transaction);
        }
        match registry.commit(transaction).await? {
            Outcome::Unchanged(_) if dry_run => {
                return Ok(Arc::new(Stored::unsaved(address.within().into(), value)));
            }
            Outcome::Committed(revision) => {
                let key = address.within().into();
                return Ok(rules::written(kind, key, revision, &value));
            }
            Outcome::Unchanged(_) => {
                return Err(StatusError::internal("a creation changed nothing"));
            }
            Outcome::Conflict(conflict) if conflict.check == 0 => {
                return Err(taken(kind, address, conflict.found));
            }
            Outcome::Conflict(conflict) if names_apart.contains(&conflict.check) => {
                return Err(bootstrap_objects::name_taken(kind, &address.name));
            }
            // The tenant, the namespace or a quota is no longer as it was: look again.
            Outcome::Conflict(conflict) => {
                registry.cache().await_applied(conflict.revision).await;
                lifecycle = Lifecycle::check(registry, kind, address).await?;
            }
        }
    }
}

/// What is told who creates what is there.
fn taken(kind: &Resource, address: &Address, found: Option<Entry>) -> StatusError {
    let found = found.map(|it| Stored::new(address.within().into(), it.modified, &it.value));
    match found.is_some_and(|it| it.is_terminating()) {
        true => StatusError::still_exists(kind, &address.name),
        false => StatusError::already_exists(kind, &address.name),
    }
}

/// The same checks and no changes: what would be refused is refused, and nothing happens.
fn checks_of(transaction: &Transaction) -> Transaction {
    let checks = transaction.checks().iter();
    checks.fold(Transaction::new(), |only, check| {
        only.check(check.key.clone(), check.expect)
    })
}

/// Everything that the server adds to a new object.
fn complete(
    registry: &Registry,
    kind: &Resource,
    address: &Address,
    object: &mut Object,
    now: &str,
) {
    let uid = metadata::text(object, "uid").unwrap_or("").to_owned();
    let mut allocator = Allocator::new(registry, &address.space);
    let (ips, ports) = allocator.parts();
    ports.keep(object);
    let mut cluster_ip = || ips.next();
    let mut node_port = || ports.next();
    let mut with = prepare::CreateContext {
        uid: &uid,
        now,
        cluster_ip: &mut cluster_ip,
        node_port: &mut node_port,
    };
    rules::prepare_new(&rules::judged_as(kind), object, &mut with);
}

/// What the server says about every new object.
fn stamp(object: &mut Object, now: &str) {
    let metadata = metadata::of(object);
    for member in metadata::SERVER_OWNED_FIELDS {
        metadata.remove(*member);
    }
    metadata.insert("uid".to_owned(), Uuid::new_v4().to_string().into());
    metadata.insert("creationTimestamp".to_owned(), now.into());
}
