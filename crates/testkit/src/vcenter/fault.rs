//! Faults in the wire format of a vCenter.

use super::value::{Data, Reference, Value, escape};

/// Why a call or a task fails.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    pub(super) of: String,
    pub(super) message: String,
    pub(super) fields: String,
}

impl Fault {
    /// A fault of this type (`InvalidState`, `NoPermission`) with this message.
    pub fn new(of: &str, message: &str) -> Self {
        Self {
            of: of.to_owned(),
            message: message.to_owned(),
            fields: String::new(),
        }
    }

    pub(super) fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        let value = value.into();
        // A field of a fault has the type of its schema.
        let field = match &value {
            Value::Plain(_, text) => format!("<{name}>{}</{name}>", escape(text)),
            value => value.element(name),
        };
        self.fields.push_str(&field);
        self
    }

    pub(super) fn invalid_login() -> Self {
        let why = "Cannot complete login due to an incorrect user name or password.";
        Self::new("InvalidLogin", why)
    }

    pub(super) fn not_authenticated(object: &str) -> Self {
        let (kind, id) = object
            .split_once(':')
            .unwrap_or(("ServiceInstance", object));
        let mut fault = Self::new("NotAuthenticated", "The session is not authenticated.");
        let (kind, id) = (escape(kind), escape(id));
        fault.fields =
            format!("<object type=\"{kind}\">{id}</object><privilegeId>System.View</privilegeId>");
        fault
    }

    pub(super) fn no_permission(privilege: &str) -> Self {
        Self::new(
            "NoPermission",
            "Permission to perform this operation was denied.",
        )
        .with("object", Reference::new("Folder", "group-d1"))
        .with("privilegeId", privilege)
    }

    pub(super) fn not_found(object: &str) -> Self {
        let (kind, id) = object.split_once(':').unwrap_or(("", object));
        let why = format!(
            "The object 'vim.{kind}:{id}' has already been deleted or has not been completely created"
        );
        let mut fault = Self::new("ManagedObjectNotFound", &why);
        fault.fields = format!("<obj type=\"{}\">{}</obj>", escape(kind), escape(id));
        fault
    }

    pub(super) fn invalid_request(why: &str) -> Self {
        Self::new("InvalidRequest", why)
    }

    pub(super) fn invalid_property(name: &str) -> Self {
        Self::new("InvalidProperty", "").with("name", name)
    }

    pub(super) fn duplicate_name(name: &str, object: Reference) -> Self {
        Self::new(
            "DuplicateName",
            &format!("The name '{name}' already exists."),
        )
        .with("name", name)
        .with("object", object)
    }

    pub(super) fn invalid_power_state(requested: &str, existing: &str) -> Self {
        let why = "The attempted operation cannot be performed in the current state";
        Self::new("InvalidPowerState", &format!("{why} ({existing})."))
            .with("requestedState", requested)
            .with("existingState", existing)
    }

    /// The content of a `LocalizedMethodFault`.
    pub(super) fn localized(&self) -> String {
        let Self {
            of,
            message,
            fields,
        } = self;
        let message = escape(message);
        format!(
            "<fault xsi:type=\"{of}\">{fields}</fault><localizedMessage>{message}</localizedMessage>"
        )
    }

    /// The body of an answer with code 500.
    pub(super) fn body(&self) -> String {
        let Self {
            of,
            message,
            fields,
        } = self;
        let message = escape(message);
        format!(
            "<soapenv:Fault><faultcode>ServerFaultCode</faultcode>\
             <faultstring>{message}</faultstring><detail>\
             <{of}Fault xmlns=\"urn:vim25\" xsi:type=\"{of}\">{fields}</{of}Fault>\
             </detail></soapenv:Fault>"
        )
    }
}

/// Data as the return value of a method.
pub(super) fn returnval(data: Data) -> String {
    Value::from(data).element("returnval")
}
