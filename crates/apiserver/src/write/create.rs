//! A new object.

use std::sync::Arc;

use bytes::Bytes;
use insula_admission::Operation;
use insula_core::Space;
use insula_custom::Verdict;
use insula_kinds::{FieldError, Kind, Object, kinds, prepare, time};
use insula_store::{Entry, Expect, Outcome, Transaction};
use uuid::Uuid;

use super::modify::Owner;
use super::ownership::{self, Ownership};
use super::{Done, admission, metadata, ranges, rights, rules};
use crate::codec::input::Sent;
use crate::pipeline::authorize::Caller;
use crate::registry::apis;
use crate::registry::built_in;
use crate::registry::publish;
use crate::registry::resource::Resource;
use crate::registry::{Address, Registry, namespace_address, no_such_tenant, tenant_address};
use crate::request::query::{Query, WriteOptions};
use crate::status::{Result, StatusError};
use crate::write::allocate::Allocator;
use crate::write::bootstrap_objects;
use crate::write::names;
use crate::write::quota;
use crate::write::webhooks::{self, Act};
use insula_cache::Stored;
use insula_cache::expiry;
use insula_kinds::core_kind;

/// How many names are tried for a `generateName`.
const NAMES_TRIED: usize = 8;

/// What is said to names that some kinds allow and no key has room for.
const LONGEST_NAME: usize = 1024;

/// What a new object has not, whatever anybody says.
const SERVERS: &[&str] = &[
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "resourceVersion",
];

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
        ranges::fill(registry, kind, self.space, self.namespace, &mut self.object);
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

    /// Lets others change it who may, before it has a name that it does not bring along.
    async fn mutate(&mut self, registry: &Registry) -> Result<()> {
        let Some(by) = self.by else {
            return Ok(());
        };
        let address = Address {
            kind: self.kind.storage(),
            space: self.space.clone(),
            namespace: self.namespace.map(str::to_owned),
            name: metadata::text(&self.object, "name")
                .unwrap_or("")
                .to_owned(),
        };
        let mut act = Act::new(registry, by, Operation::Create, self.kind, &address);
        act.dry_run = self.dry_run;
        if !act.concerns_anybody() {
            return Ok(());
        }
        // Who creates into nothing is told so, and nobody else is.
        Gate::open(registry, self.kind, &address).await?;
        metadata::place(&mut self.object, self.kind, &address)?;
        let own = metadata::of(&mut self.object).clone();
        webhooks::mutate(&act, Some(&mut self.object), None).await?;
        let metadata = metadata::of(&mut self.object);
        SERVERS
            .iter()
            .for_each(|member| drop(metadata.remove(*member)));
        for member in ["uid", "creationTimestamp"] {
            metadata.extend(own.get(member).map(|is| (member.to_owned(), is.clone())));
        }
        // The name may be another now.
        metadata.remove("selfLink");
        let owned = own.get("managedFields").cloned();
        by.context.warn(ownership::guard(owned, &mut self.object));
        Ok(())
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
        publish::admit(registry, address, &object).await?;
        let gate = Gate::open(registry, kind, address).await?;
        admission::admit_pod(registry, address, &mut object).await?;
        complete(registry, kind, address, &mut object, now);
        let by = self.by.map(|by| by.granted.principal().as_ref());
        admission::admit_request(address, &mut object, by);
        admission::refuse_masters(address, &object)?;
        let change = rights::Change {
            address,
            subresource: None,
            old: None,
            new: &object,
        };
        rights::check(registry, self.by, change).await?;
        let Verdict {
            mut errors,
            warnings,
        } = rules::judge_new(self.by, kind, &object).await?;
        if errors.is_empty() && registry.key(address).len() > Transaction::MAX_KEY_BYTES {
            errors.push(FieldError::too_long("metadata.name", LONGEST_NAME));
        }
        if !errors.is_empty() {
            return Err(StatusError::invalid(kind, &address.name, &errors).warned(warnings));
        }
        ranges::check(registry, address, &object)?;
        if let Some(by) = self.by {
            let mut act = Act::new(registry, by, Operation::Create, kind, address);
            act.dry_run = self.dry_run;
            webhooks::validate(&act, Some(&object), None).await?;
        }
        let value = rules::stored(registry, self.by, kind, object).await?;
        let object = put(registry, self, address, gate, value, now).await?;
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
    mut gate: Gate,
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
        transaction = gate.guard(registry, transaction);
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
                registry.cache().reach(conflict.revision).await;
                gate = Gate::open(registry, kind, address).await?;
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
    for member in SERVERS {
        metadata.remove(*member);
    }
    metadata.insert("uid".to_owned(), Uuid::new_v4().to_string().into());
    metadata.insert("creationTimestamp".to_owned(), now.into());
}

/// What must hold while an object comes about: its space and its namespace are there and
/// not going away. The transaction itself checks it, so that nothing is created into what
/// was deleted a moment ago.
pub(super) struct Gate {
    tenant: Option<(Address, Arc<Stored>)>,
    namespace: Option<(Address, Arc<Stored>)>,
    definition: Option<Defining>,
}

/// The definition that an object is one of, and the space's own of that name, which there
/// must not be if it is the system's.
struct Defining {
    address: Address,
    found: Arc<Stored>,
    own: Option<Address>,
}

impl Gate {
    /// What closes it is looked at twice: the namespace that the cache shows may have been
    /// replaced by another of its name.
    pub(super) async fn open(
        registry: &Registry,
        kind: &Resource,
        address: &Address,
    ) -> Result<Self> {
        match Self::try_open(registry, kind, address).await {
            Err(_) => {
                registry.catch_up().await?;
                Self::try_open(registry, kind, address).await
            }
            opened => opened,
        }
    }

    async fn try_open(registry: &Registry, kind: &Resource, address: &Address) -> Result<Self> {
        let mut gate = Self {
            tenant: None,
            namespace: None,
            definition: Defining::find(registry, kind, address)?,
        };
        if let Some(tenant) = address.space.tenant() {
            let name = tenant.as_str();
            let found = registry.find_tenant(name).await?;
            let found = found.ok_or_else(|| no_such_tenant(name))?;
            if found.terminating {
                let why = format!(
                    "unable to create new content in tenant {name} because it is being terminated"
                );
                return Err(StatusError::not_allowed(kind, &address.name, &why));
            }
            gate.tenant = Some((tenant_address(name), found.object));
        }
        if let Some(name) = &address.namespace {
            let namespace = namespace_address(&address.space, name);
            let found = registry.cached(&namespace);
            let missing = || StatusError::not_found(kinds().get(core_kind("namespaces")), name);
            let found = found.ok_or_else(missing)?;
            if found.is_terminating() {
                return Err(namespace_terminating(kind, &address.name, name));
            }
            gate.namespace = Some((namespace, found));
        }
        Ok(gate)
    }

    pub(super) fn guard(&self, registry: &Registry, mut transaction: Transaction) -> Transaction {
        for (address, seen) in [&self.tenant, &self.namespace].into_iter().flatten() {
            let unchanged = Expect::At(seen.revision);
            transaction = transaction.check(registry.key(address), unchanged);
        }
        if let Some(definition) = &self.definition {
            let unchanged = Expect::At(definition.found.revision);
            transaction = transaction.check(registry.key(&definition.address), unchanged);
            if let Some(own) = &definition.own {
                transaction = transaction.check(registry.key(own), Expect::Absent);
            }
        }
        transaction
    }
}

impl Defining {
    /// What must not change while an object of a kind comes about that users define: nothing
    /// is created by a definition that is being deleted, or that is published no more.
    fn find(registry: &Registry, kind: &Resource, address: &Address) -> Result<Option<Self>> {
        let Some(custom) = kind.custom() else {
            return Ok(None);
        };
        let apis = registry.apis(&address.space);
        let offer = apis
            .as_ref()
            .and_then(|apis| apis.offer(&kind.group, &kind.resource));
        let offer = offer.ok_or_else(StatusError::no_such_path)?;
        if offer.terminating {
            let why = "create not allowed while custom resource definition is terminating";
            return Err(StatusError::not_allowed(kind, &address.name, why));
        }
        if offer.defined.id() != custom.defined().id() {
            let why = "what defines this kind has changed; please try again";
            return Err(StatusError::conflict(kind, &address.name, why));
        }
        let name = offer.name();
        let source = apis::definition_address(&offer.source, &name);
        let found = registry
            .cached(&source)
            .ok_or_else(StatusError::no_such_path)?;
        let own = (offer.source != address.space)
            .then(|| apis::definition_address(&address.space, &name));
        if own
            .as_ref()
            .is_some_and(|own| registry.cached(own).is_some())
        {
            let why = "this space has a definition of its own of this name, which will be served \
                       when no object of the published one is left";
            return Err(StatusError::not_allowed(kind, &address.name, why));
        }
        Ok(Some(Self {
            address: source,
            found,
            own,
        }))
    }
}

fn namespace_terminating(kind: &Kind, name: &str, namespace: &str) -> StatusError {
    let why = format!(
        "unable to create new content in namespace {namespace} because it is being terminated"
    );
    let cause = format!("namespace {namespace} is being terminated");
    StatusError::not_allowed(kind, name, &why).cause(
        "NamespaceTerminating",
        &cause,
        "metadata.namespace",
    )
}
