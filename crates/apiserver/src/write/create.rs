//! Creating objects.

use std::sync::Arc;

use bytes::Bytes;
use insula_access::rbac::ResourceAttributes;
use insula_admission::Operation;
use insula_core::Space;
use insula_custom::Verdict;
use insula_kinds::{FieldError, Object, Value, prepare, time};
use insula_store::{Entry, Outcome, Transaction};
use uuid::Uuid;

use super::admission::lifecycle::Lifecycle;
use super::admission::{Admission, Phase, pod_security};
use super::modify::ManagedFields;
use super::ownership::Ownership;
use super::{Done, metadata, strategy};
use crate::codec::input::Sent;
use crate::pipeline::authorize::Caller;
use crate::pipeline::node_authorizer::LEASE_NAMESPACE;
use crate::registry::resource::Resource;
use crate::registry::{Address, Registry};
use crate::request::query::{Query, WriteOptions};
use crate::status::{Result, StatusError};
use crate::write::allocate::{self, Allocator};
use crate::write::bootstrap_objects;
use crate::write::names;
use crate::write::quota;
use insula_cache::Stored;
use insula_cache::expiry;
use insula_kinds::core_kind;

/// How many names are tried for a `generateName`, as in Kubernetes.
const MAX_NAME_ATTEMPTS: usize = 8;

/// The name length reported when a key exceeds the store's limit; some kinds allow longer names.
const MAX_NAME_LENGTH: usize = 1024;

/// Creates the object in the body.
pub async fn create(
    registry: &Registry,
    caller: Caller<'_>,
    query: &Query,
    sent: &Sent,
) -> Result<Done> {
    let options = WriteOptions::read(query, "CreateOptions")?;
    let path = caller.path();
    let written = strategy::read_body(caller, sent, &path.kind, options.validation).await?;
    let request = CreateRequest {
        kind: &path.kind,
        space: caller.space()?,
        namespace: path.namespace.as_deref(),
        object: written.object,
        caller: Some(caller),
        managed_fields: ManagedFields::Update,
        dry_run: options.dry_run,
    };
    match request.create(registry).await {
        Ok(mut done) => {
            done.warnings.splice(0..0, written.warnings);
            Ok(done)
        }
        Err(error) => Err(error.warned(written.warnings)),
    }
}

/// Creates an object of `kind` that is already decoded.
pub async fn create_object(
    registry: &Registry,
    kind: &Resource,
    space: &Space,
    namespace: Option<&str>,
    object: Object,
    caller: Option<Caller<'_>>,
    dry_run: bool,
) -> Result<Done> {
    let request = CreateRequest {
        kind,
        space,
        namespace,
        object,
        caller,
        managed_fields: ManagedFields::Update,
        dry_run,
    };
    request.create(registry).await
}

/// A create request: the decoded object and where it goes.
pub(super) struct CreateRequest<'a> {
    /// The resource in the version of the request.
    pub kind: &'a Resource,
    pub space: &'a Space,
    pub namespace: Option<&'a str>,
    pub object: Object,
    /// The caller; `None` if the server itself writes.
    pub caller: Option<Caller<'a>>,
    /// How the managed fields of the new object are determined.
    pub managed_fields: ManagedFields<'a>,
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
        let emptied = empty_lists(&self.object);
        match self.managed_fields {
            // The object is the result of an apply.
            ManagedFields::Preset => strategy::apply_defaults_to_applied(kind, &mut self.object)?,
            _ => strategy::apply_defaults(kind, &mut self.object)?,
        }
        let now = time::now();
        fill_system_metadata(&mut self.object, &now);
        if let ManagedFields::Update = self.managed_fields {
            self.record_fields(registry, emptied).await?;
        }
        strategy::to_validated(kind, &mut self.object);
        if self.creates_lease_namespace(registry).await? {
            // Before webhooks, which look at the namespace.
            bootstrap_objects::ensure_lease_namespace(registry, self.space, &now).await?;
        }
        self.mutate(registry).await?;
        let stored = kind.storage();
        if stored.is(core_kind("limitranges"))
            && metadata::text(&self.object, "generateName").is_none()
        {
            // LimitRange is the one kind that may be created without a name.
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
        for _ in 0..MAX_NAME_ATTEMPTS {
            address.name = names::generate(&prefix);
            metadata::of(&mut self.object).insert("name".to_owned(), address.name.as_str().into());
            let object = self.object.clone();
            match self.commit(registry, &address, object, &now).await {
                Err(error) if error.is_taken() => {}
                done => return done,
            }
        }
        Err(StatusError::no_name_found(kind, &address.name))
    }

    /// Records all fields as the creator's. A list that is stored as null is empty until then.
    async fn record_fields(
        &mut self,
        registry: &Registry,
        emptied: Vec<(String, Value)>,
    ) -> Result<()> {
        let object = &mut self.object;
        let is_null = |name: &str| object.get(name).is_none_or(Value::is_null);
        let nulls = emptied.into_iter().filter(|(name, _)| is_null(name));
        let nulls: Vec<_> = nulls.collect();
        object.extend(nulls.iter().cloned());
        let ownership = Ownership::new(registry, self.caller, self.kind, None);
        ownership.record_new(object).await?;
        object.extend(nulls.into_iter().map(|(name, _)| (name, Value::Null)));
        Ok(())
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
            caller: self.caller,
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
        if registry.built_in().has(address) {
            return Err(StatusError::already_exists(kind, &address.name));
        }
        metadata::set_location(&mut object, address, self.caller)?;
        let mut admission = self.admission(registry, address, &mut object);
        admission.run(Phase::Name).await?;
        allocate::check(registry, address, admission.object)?;
        prepare_object(registry, kind, address, admission.object, now);
        allocate::check_allocated(address, admission.object)?;
        admission.run(Phase::Content).await?;
        let Verdict {
            mut errors,
            warnings,
        } = strategy::validate_create(self.caller, kind, admission.object).await?;
        if errors.is_empty() && registry.key(address).len() > Transaction::MAX_KEY_BYTES {
            errors.push(FieldError::too_long("metadata.name", MAX_NAME_LENGTH));
        }
        if !errors.is_empty() {
            return Err(StatusError::invalid(kind, &address.name, &errors).warned(warnings));
        }
        admission.run(Phase::Validate).await?;
        let lifecycle = admission.lifecycle.take();
        let lifecycle =
            lifecycle.ok_or_else(|| StatusError::internal("no lifecycle was checked"))?;
        let value = strategy::encode_for_storage(registry, self.caller, kind, object).await?;
        let object = put(registry, self, address, lifecycle, value, now).await?;
        Ok(Done {
            object,
            created: true,
            warnings,
        })
    }
}

/// Commits the new object, with checks that its tenant and namespace still accept creates.
async fn put(
    registry: &Registry,
    request: &CreateRequest<'_>,
    address: &Address,
    mut lifecycle: Lifecycle,
    value: Bytes,
    now: &str,
) -> Result<Arc<Stored>> {
    let (kind, dry_run) = (request.kind, request.dry_run);
    let write = quota::QuotaWrite {
        registry,
        kind,
        address,
        subresource: None,
        old: None,
        new: &value,
        caller: request.caller,
    };
    let _locks = write.lock().await;
    loop {
        let stored = expiry::stored(&address.kind, value.clone());
        let mut transaction = Transaction::create(registry.key(address), stored);
        transaction = lifecycle.guard(registry, transaction);
        let guards = transaction.checks().len();
        if address.kind.is(core_kind("namespaces")) {
            transaction = bootstrap_objects::check_no_tenant_named(registry, transaction, address);
            transaction =
                bootstrap_objects::add_namespace_objects(registry, transaction, address, now);
        } else if address.kind.is(core_kind("tenants")) {
            transaction =
                bootstrap_objects::check_no_namespace_named(registry, transaction, address);
            transaction =
                bootstrap_objects::add_tenant_objects(registry, transaction, &address.name, now)?;
        }
        let name_checks = guards..transaction.checks().len();
        transaction = write.charge(transaction).await?;
        if dry_run {
            transaction = checks_only(&transaction);
        }
        match registry.commit(transaction).await? {
            Outcome::Unchanged(_) if dry_run => {
                return Ok(Arc::new(Stored::unsaved(address.within().into(), value)));
            }
            Outcome::Committed(revision) => {
                let key = address.within().into();
                return Ok(strategy::written_object(kind, key, revision, &value));
            }
            Outcome::Unchanged(_) => {
                return Err(StatusError::internal("create changed nothing"));
            }
            Outcome::Conflict(conflict) if conflict.check == 0 => {
                return Err(exists_error(kind, address, conflict.found));
            }
            Outcome::Conflict(conflict) if name_checks.contains(&conflict.check) => {
                return Err(bootstrap_objects::name_conflict(kind, &address.name));
            }
            // The tenant, the namespace or a quota changed meanwhile: check again.
            Outcome::Conflict(conflict) => {
                registry.cache().await_applied(conflict.revision).await;
                let seen = lifecycle;
                lifecycle = Lifecycle::check(registry, kind, address).await?;
                let caller = request.caller;
                pod_security::validate_again(registry, caller, address, &value, &seen, &lifecycle)?;
            }
        }
    }
}

impl CreateRequest<'_> {
    /// Whether the namespace of node leases comes with this object: with the lease of the node that
    /// creates it, or with a lease of a caller who may create namespaces. Others find it missing.
    async fn creates_lease_namespace(&self, registry: &Registry) -> Result<bool> {
        let is_lease = self.kind.group == "coordination.k8s.io" && self.kind.resource == "leases";
        if self.namespace != Some(LEASE_NAMESPACE) || !is_lease || self.dry_run {
            return Ok(false);
        }
        let Some(caller) = self.caller else {
            return Ok(false);
        };
        let name = self
            .object
            .get("metadata")
            .and_then(|of| of.get("name")?.as_str());
        if let Some(node) = caller.granted.principal().node() {
            return Ok(name == Some(node));
        }
        let create = ResourceAttributes {
            verb: "create",
            resource: "namespaces",
            ..ResourceAttributes::default()
        };
        caller.granted.is_allowed(registry, create).await
    }
}

/// Returns the error for a create with a name that is in use.
fn exists_error(kind: &Resource, address: &Address, found: Option<Entry>) -> StatusError {
    let found = found.map(|it| Stored::new(address.within().into(), it.modified, &it.value));
    match found.is_some_and(|it| it.is_terminating()) {
        true => StatusError::still_exists(kind, &address.name),
        false => StatusError::already_exists(kind, &address.name),
    }
}

/// Returns the transaction's checks without its changes, for a dry run.
fn checks_only(transaction: &Transaction) -> Transaction {
    let checks = transaction.checks().iter();
    checks.fold(Transaction::new(), |only, check| {
        only.check(check.key.clone(), check.expect)
    })
}

/// Fills in the fields that the server sets on a new object.
fn prepare_object(
    registry: &Registry,
    kind: &Resource,
    address: &Address,
    object: &mut Object,
    now: &str,
) {
    let uid = metadata::text(object, "uid").unwrap_or("").to_owned();
    let mut allocator = Allocator::new(registry, &address.space);
    let (ips, ports) = allocator.parts();
    ports.reserve_requested(object);
    let mut cluster_ip = || ips.next();
    let mut node_port = || ports.next();
    let mut with = prepare::CreateContext {
        uid: &uid,
        now,
        ip_family: registry.built_in().service_range().family(),
        cluster_ip: &mut cluster_ip,
        node_port: &mut node_port,
    };
    strategy::prepare_for_create(&strategy::validated_as(kind), object, &mut with);
}

/// Returns the members of an object that are empty lists.
fn empty_lists(object: &Object) -> Vec<(String, Value)> {
    let is_empty = |value: &Value| value.as_array().is_some_and(Vec::is_empty);
    let empty = object.iter().filter(|(_, value)| is_empty(value));
    empty
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

/// Resets the server-owned metadata, and sets UID and creation timestamp.
fn fill_system_metadata(object: &mut Object, now: &str) {
    let metadata = metadata::of(object);
    for member in metadata::SERVER_OWNED_FIELDS {
        metadata.remove(*member);
    }
    metadata.insert("uid".to_owned(), Uuid::new_v4().to_string().into());
    metadata.insert("creationTimestamp".to_owned(), now.into());
}
