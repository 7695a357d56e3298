//! Holds on Secrets: owner references and a finalizer. Owners of groups and kinds that hold no
//! Secrets are ignored.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

/// An owner of a Secret.
pub type Owner = OwnerReference;

/// How a Secret is held while an object uses it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Hold {
    /// It is not held: many objects use it, and none of them is its owner.
    #[default]
    None,
    /// One claimant holds it, and it is deleted with the claimant.
    One(Claimant),
    /// All its users hold it together, with a finalizer: it is not deleted while one of them
    /// still needs it.
    Shared {
        /// The finalizer. It differs from that of Secrets with one holder, which is removed from
        /// Secrets without owners.
        finalizer: &'static str,
    },
}

impl Hold {
    /// Returns another claimant that holds the Secret alone.
    pub fn holder<'a>(&self, owners: &'a [OwnerReference]) -> Option<&'a OwnerReference> {
        match self {
            Self::One(claimant) => claimant.holder(owners),
            Self::None | Self::Shared { .. } => None,
        }
    }

    /// Returns the hold of an identity on its own Secret.
    pub fn of_identity(&self, kind: &str, name: &str) -> Self {
        match self {
            Self::One(claimant) => Self::One(Claimant {
                kind: kind.to_owned(),
                name: name.to_owned(),
                ..claimant.clone()
            }),
            other => other.clone(),
        }
    }

    /// Takes a hold on a Secret with these owners and finalizers.
    pub fn take(&self, owners: &[OwnerReference], finalizers: &[String]) -> ClaimChange {
        match self {
            Self::None => ClaimChange::Unchanged,
            Self::One(claimant) => claimant.claim(owners, finalizers),
            Self::Shared { finalizer } => {
                let mut kept = finalizers.to_vec();
                if !kept.iter().any(|one| one == finalizer) {
                    kept.push((*finalizer).to_owned());
                }
                change((owners, finalizers), owners.to_vec(), kept)
            }
        }
    }

    /// Ends a hold on a Secret. A shared one ends with its last user.
    pub fn end(
        &self,
        owners: &[OwnerReference],
        finalizers: &[String],
        has_other_users: bool,
    ) -> ClaimChange {
        match self {
            Self::None => ClaimChange::Unchanged,
            Self::One(claimant) => claimant.release(owners, finalizers),
            Self::Shared { .. } if has_other_users => ClaimChange::Unchanged,
            Self::Shared { finalizer } => {
                let kept = finalizers.iter().filter(|one| one != finalizer);
                let kept = kept.cloned().collect();
                change((owners, finalizers), owners.to_vec(), kept)
            }
        }
    }
}

/// A potential claimant of a Secret: an object or an identity.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claimant {
    /// The group and version.
    pub api_version: String,
    /// The kind.
    pub kind: String,
    /// The name.
    pub name: String,
    /// The UID.
    pub uid: String,
    /// The kinds of the group that claim Secrets.
    pub kinds: &'static [&'static str],
    /// The finalizer of a claimed Secret.
    pub finalizer: &'static str,
}

/// The change of a Secret's metadata that a claim or a release needs.
#[derive(Clone, Debug, PartialEq)]
pub enum ClaimChange {
    /// No change.
    Unchanged,
    /// The owners and finalizers to write.
    Write {
        /// All owners, including those of other parties.
        owners: Vec<OwnerReference>,
        /// All finalizers, including those of other parties.
        finalizers: Vec<String>,
    },
    /// The Secret has another claimant.
    Taken(OwnerReference),
}

impl Claimant {
    /// Claims a Secret: adds or refreshes the claimant's owner reference (same group, kind and
    /// name), and adds the finalizer.
    pub fn claim(&self, owners: &[OwnerReference], finalizers: &[String]) -> ClaimChange {
        if let Some(holder) = self.holder(owners) {
            return ClaimChange::Taken(holder.clone());
        }
        let mut wanted: Vec<OwnerReference> = Vec::with_capacity(owners.len() + 1);
        let mut entered = false;
        for owner in owners {
            match self.is(owner) {
                false => wanted.push(owner.clone()),
                // Drop duplicates.
                true if entered => {}
                true => {
                    entered = true;
                    wanted.push(self.refreshed(owner));
                }
            }
        }
        if !entered {
            wanted.push(self.entry());
        }
        let mut kept = finalizers.to_vec();
        if !finalizers.iter().any(|one| one == self.finalizer) {
            kept.push(self.finalizer.to_owned());
        }
        change((owners, finalizers), wanted, kept)
    }

    /// Releases a Secret: removes the owner reference, and the finalizer if there is no other
    /// claimant.
    pub fn release(&self, owners: &[OwnerReference], finalizers: &[String]) -> ClaimChange {
        let left = owners.iter().filter(|owner| !self.is(owner)).cloned();
        let left: Vec<_> = left.collect();
        let held = left.iter().any(|owner| self.is_claimant_kind(owner));
        let kept = finalizers
            .iter()
            .filter(|one| held || *one != self.finalizer);
        let kept: Vec<_> = kept.cloned().collect();
        change((owners, finalizers), left, kept)
    }

    /// Returns another claimant of the Secret.
    pub fn holder<'a>(&self, owners: &'a [OwnerReference]) -> Option<&'a OwnerReference> {
        owners
            .iter()
            .find(|owner| self.is_claimant_kind(owner) && !self.is(owner))
    }

    /// Returns whether an owner is of the claimant's group and of a kind that claims Secrets.
    pub(crate) fn is_claimant_kind(&self, owner: &OwnerReference) -> bool {
        group(&owner.api_version) == group(&self.api_version)
            && self.kinds.contains(&owner.kind.as_str())
    }

    /// Returns whether an owner is this claimant. Version and UID are ignored, because upgrades
    /// change the one and moves the other.
    pub fn is(&self, owner: &OwnerReference) -> bool {
        group(&owner.api_version) == group(&self.api_version)
            && owner.kind == self.kind
            && owner.name == self.name
    }

    fn entry(&self) -> OwnerReference {
        OwnerReference {
            api_version: self.api_version.clone(),
            kind: self.kind.clone(),
            name: self.name.clone(),
            uid: self.uid.clone(),
            ..OwnerReference::default()
        }
    }

    fn refreshed(&self, owner: &OwnerReference) -> OwnerReference {
        match owner.uid == self.uid && owner.api_version == self.api_version {
            true => owner.clone(),
            false => self.entry(),
        }
    }
}

fn change(
    before: (&[OwnerReference], &[String]),
    owners: Vec<OwnerReference>,
    finalizers: Vec<String>,
) -> ClaimChange {
    match before == (owners.as_slice(), finalizers.as_slice()) {
        true => ClaimChange::Unchanged,
        false => ClaimChange::Write { owners, finalizers },
    }
}

fn group(api_version: &str) -> &str {
    api_version.split_once('/').map_or("", |(group, _)| group)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const FINALIZER: &str = "cloud/infra.example";

    fn claimant(kind: &str, name: &str) -> Claimant {
        Claimant {
            api_version: "infra.example/v2".to_owned(),
            kind: kind.to_owned(),
            name: name.to_owned(),
            uid: format!("uid-{name}"),
            kinds: &["Cloud", "CloudIdentity"],
            finalizer: FINALIZER,
        }
    }

    /// Parses an owner such as `infra.example/v2 Cloud a uid-a`.
    fn owner(text: &str) -> OwnerReference {
        let words: Vec<_> = text.split(' ').map(str::to_owned).collect();
        let [api_version, kind, name, uid] = <[String; 4]>::try_from(words).unwrap();
        OwnerReference {
            api_version,
            kind,
            name,
            uid,
            ..OwnerReference::default()
        }
    }

    fn write(owners: &[&str], finalizers: &[&str]) -> ClaimChange {
        let owners = owners.iter().map(|text| owner(text)).collect();
        let finalizers = finalizers.iter().map(|one| (*one).to_owned()).collect();
        ClaimChange::Write { owners, finalizers }
    }

    const OURS: &str = "infra.example/v2 Cloud a uid-a";

    #[test]
    fn c4_claim_adds_one_owner_reference_and_keeps_others() {
        let sealed = "bitnami.com/v1alpha1 SealedSecret s 1";
        for (owners, finalizers, change) in [
            (vec![], vec![], write(&[OURS], &[FINALIZER])),
            (vec![OURS], vec![FINALIZER], ClaimChange::Unchanged),
            (vec![OURS], vec![], write(&[OURS], &[FINALIZER])),
            (vec![], vec![FINALIZER], write(&[OURS], &[FINALIZER])),
            // A stale UID or an old version is refreshed in place.
            (
                vec!["infra.example/v2 Cloud a old", sealed],
                vec!["x", FINALIZER],
                write(&[OURS, sealed], &["x", FINALIZER]),
            ),
            (
                vec!["infra.example/v1 Cloud a uid-a"],
                vec![FINALIZER],
                write(&[OURS], &[FINALIZER]),
            ),
            (
                vec![OURS, "infra.example/v1 Cloud a old"],
                vec![FINALIZER],
                write(&[OURS], &[FINALIZER]),
            ),
            // x1: external owners are ignored, also with the same name.
            (vec![sealed], vec![], write(&[sealed, OURS], &[FINALIZER])),
            (
                vec![
                    "other.example/v2 Cloud b 1",
                    "v1 Cloud c 2",
                    "infra.example/v2 Other b 3",
                ],
                vec![],
                write(
                    &[
                        "other.example/v2 Cloud b 1",
                        "v1 Cloud c 2",
                        "infra.example/v2 Other b 3",
                        OURS,
                    ],
                    &[FINALIZER],
                ),
            ),
            // The claimant keeps the Secret, whatever its version and position.
            (
                vec!["infra.example/v2 Cloud b 1"],
                vec![],
                ClaimChange::Taken(owner("infra.example/v2 Cloud b 1")),
            ),
            (
                vec![OURS, "infra.example/v1 CloudIdentity a uid-a"],
                vec![FINALIZER],
                ClaimChange::Taken(owner("infra.example/v1 CloudIdentity a uid-a")),
            ),
        ] {
            let owned: Vec<_> = owners.iter().map(|text| owner(text)).collect();
            let finalizers: Vec<_> = finalizers.iter().map(|one| (*one).to_owned()).collect();
            let actual = claimant("Cloud", "a").claim(&owned, &finalizers);
            assert_eq!(actual, change, "{owners:?} {finalizers:?}");
        }
    }

    #[test]
    fn shared_hold_is_a_finalizer_until_the_last_user_leaves() {
        let shared = Hold::Shared {
            finalizer: FINALIZER,
        };
        let owners = [owner(OURS)];
        let held = ["x".to_owned(), FINALIZER.to_owned()];
        let free = ["x".to_owned()];
        assert_eq!(shared.take(&owners, &held), ClaimChange::Unchanged);
        assert_eq!(
            shared.take(&owners, &free),
            write(&[OURS], &["x", FINALIZER])
        );
        assert_eq!(shared.end(&owners, &held, true), ClaimChange::Unchanged);
        assert_eq!(shared.end(&owners, &held, false), write(&[OURS], &["x"]));
        assert_eq!(shared.end(&owners, &free, false), ClaimChange::Unchanged);
        assert_eq!(shared.holder(&owners), None);
        assert_eq!(Hold::None.take(&owners, &free), ClaimChange::Unchanged);
        assert_eq!(
            Hold::None.end(&owners, &held, false),
            ClaimChange::Unchanged
        );
        let one = Hold::One(claimant("Cloud", "b"));
        assert_eq!(one.holder(&owners), Some(&owners[0]));
        assert_eq!(one.of_identity("Cloud", "a").holder(&owners), None);
    }

    #[test]
    fn x9_last_release_removes_the_finalizer() {
        let sealed = "bitnami.com/v1alpha1 SealedSecret s 1";
        let other = "infra.example/v2 CloudIdentity b 1";
        for (owners, finalizers, change) in [
            (vec![], vec![], ClaimChange::Unchanged),
            (vec![], vec![FINALIZER], write(&[], &[])),
            (vec![OURS], vec![FINALIZER], write(&[], &[])),
            (
                vec!["infra.example/v1 Cloud a old"],
                vec![FINALIZER],
                write(&[], &[]),
            ),
            (
                vec![OURS, sealed],
                vec!["x", FINALIZER],
                write(&[sealed], &["x"]),
            ),
            (
                vec![OURS, other],
                vec![FINALIZER],
                write(&[other], &[FINALIZER]),
            ),
            (vec![other], vec![FINALIZER], ClaimChange::Unchanged),
        ] {
            let owned: Vec<_> = owners.iter().map(|text| owner(text)).collect();
            let finalizers: Vec<_> = finalizers.iter().map(|one| (*one).to_owned()).collect();
            let actual = claimant("Cloud", "a").release(&owned, &finalizers);
            assert_eq!(actual, change, "{owners:?} {finalizers:?}");
        }
    }

    fn any_owner() -> impl Strategy<Value = OwnerReference> {
        let api = prop::sample::select(vec!["infra.example/v1", "infra.example/v2", "x/v1", "v1"]);
        let kind = prop::sample::select(vec!["Cloud", "CloudIdentity", "Other"]);
        let name = prop::sample::select(vec!["a", "b"]);
        let uid = prop::sample::select(vec!["uid-a", "2"]);
        (api, kind, name, uid)
            .prop_map(|(api, kind, name, uid)| owner(&format!("{api} {kind} {name} {uid}")))
    }

    proptest! {
        #[test]
        fn c4_claim_and_release_restore_the_metadata(
            owners in prop::collection::vec(any_owner(), 0..4),
        ) {
            let me = claimant("Cloud", "a");
            let others: Vec<_> = owners.iter().filter(|one| !me.is(one)).cloned().collect();
            match me.claim(&owners, &[]) {
                ClaimChange::Write { owners: claimed, finalizers } => {
                    prop_assert_eq!(me.claim(&claimed, &finalizers), ClaimChange::Unchanged);
                    prop_assert_eq!(claimed.iter().filter(|one| me.is(one)).count(), 1);
                    let released = me.release(&claimed, &finalizers);
                    prop_assert_eq!(released, ClaimChange::Write { owners: others, finalizers: vec![] });
                }
                ClaimChange::Taken(holder) => prop_assert!(me.is_claimant_kind(&holder) && !me.is(&holder)),
                ClaimChange::Unchanged => prop_assert!(false, "the finalizer was not there"),
            }
        }
    }
}
