//! Types and reasons of conditions.

use insula_identity::reason::Reason;
use insula_operator::condition::ConditionWriter;
use insula_operator::provider::{Closed, full_message};

/// Whether the vCenter can be used.
pub(crate) const VCENTER: &str = "VCenterAvailable";

/// Reports why there is no session with the vCenter. While one is opened, the last report holds.
pub(crate) fn set_closed(writer: &mut ConditionWriter<'_>, why: &Closed) {
    match why {
        Closed::Opening => {}
        Closed::Refused(refusal) => {
            writer.set_false(VCENTER, reason(refusal.reason), full_message(refusal));
        }
        Closed::Unknown(why) => writer.set_false(VCENTER, "ServerUnavailable", why.clone()),
    }
}

/// Returns a reason as it is written to conditions and Events, in this provider's terms.
pub(crate) fn reason(reason: Reason) -> &'static str {
    match reason {
        Reason::Unreachable => "VCenterUnreachable",
        Reason::EndpointNotAllowed => "ServerNotAllowed",
        other => other.as_str(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_named_in_provider_terms() {
        assert_eq!(reason(Reason::Unreachable), "VCenterUnreachable");
        assert_eq!(reason(Reason::EndpointNotAllowed), "ServerNotAllowed");
        assert_eq!(reason(Reason::NamespaceNotAllowed), "NamespaceNotAllowed");
    }
}
