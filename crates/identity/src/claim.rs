//! Who holds a Secret: owner references and a finalizer. One Secret is held by one claimant;
//! owners that are none of ours do not matter.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

/// An owner of a Secret.
pub type Owner = OwnerReference;

/// Something that may hold a Secret: an object, or an identity.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claimant {
    /// Its group and version.
    pub api_version: String,
    /// Its kind.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// Which kinds of that group hold Secrets at all.
    pub kinds: &'static [&'static str],
    /// The finalizer that keeps a held Secret.
    pub finalizer: &'static str,
}

/// What metadata of a Secret would have to be.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// As it is.
    Right,
    /// With these owners and finalizers.
    Write {
        /// All owners, also those that are none of ours.
        owners: Vec<OwnerReference>,
        /// All finalizers, also those that are none of ours.
        finalizers: Vec<String>,
    },
    /// It is held by this one.
    Taken(OwnerReference),
}

impl Claimant {
    /// To hold a Secret: an entry of ours (same group, kind and name) is refreshed, the
    /// finalizer is there.
    pub fn claim(&self, owners: &[OwnerReference], finalizers: &[String]) -> Verdict {
        if let Some(holder) = self.holder(owners) {
            return Verdict::Taken(holder.clone());
        }
        let mut wanted: Vec<OwnerReference> = Vec::with_capacity(owners.len() + 1);
        let mut entered = false;
        for owner in owners {
            match self.is(owner) {
                false => wanted.push(owner.clone()),
                // One entry is enough.
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
        verdict((owners, finalizers), wanted, kept)
    }

    /// To let it go: our entry goes, and the finalizer if nobody else of ours holds it.
    pub fn release(&self, owners: &[OwnerReference], finalizers: &[String]) -> Verdict {
        let left = owners.iter().filter(|owner| !self.is(owner)).cloned();
        let left: Vec<_> = left.collect();
        let held = left.iter().any(|owner| self.is_sort(owner));
        let kept = finalizers
            .iter()
            .filter(|one| held || *one != self.finalizer);
        let kept: Vec<_> = kept.cloned().collect();
        verdict((owners, finalizers), left, kept)
    }

    /// Who else of ours holds it.
    pub fn holder<'a>(&self, owners: &'a [OwnerReference]) -> Option<&'a OwnerReference> {
        owners
            .iter()
            .find(|owner| self.is_sort(owner) && !self.is(owner))
    }

    /// Whether an owner is of the sort that holds Secrets: of our group, and one of our kinds.
    pub fn is_sort(&self, owner: &OwnerReference) -> bool {
        group(&owner.api_version) == group(&self.api_version)
            && self.kinds.contains(&owner.kind.as_str())
    }

    /// Whether an owner is this one. Neither version nor UID matter: the one changes with
    /// every upgrade, the other with every move.
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

fn verdict(
    before: (&[OwnerReference], &[String]),
    owners: Vec<OwnerReference>,
    finalizers: Vec<String>,
) -> Verdict {
    match before == (owners.as_slice(), finalizers.as_slice()) {
        true => Verdict::Right,
        false => Verdict::Write { owners, finalizers },
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

    /// As in `infra.example/v2 Cloud a uid-a`.
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

    fn write(owners: &[&str], finalizers: &[&str]) -> Verdict {
        let owners = owners.iter().map(|text| owner(text)).collect();
        let finalizers = finalizers.iter().map(|one| (*one).to_owned()).collect();
        Verdict::Write { owners, finalizers }
    }

    const OURS: &str = "infra.example/v2 Cloud a uid-a";

    #[test]
    fn c4_a_claim_enters_itself_once_and_leaves_others_alone() {
        let sealed = "bitnami.com/v1alpha1 SealedSecret s 1";
        for (owners, finalizers, verdict) in [
            (vec![], vec![], write(&[OURS], &[FINALIZER])),
            (vec![OURS], vec![FINALIZER], Verdict::Right),
            (vec![OURS], vec![], write(&[OURS], &[FINALIZER])),
            (vec![], vec![FINALIZER], write(&[OURS], &[FINALIZER])),
            // A stale UID, and an old version, are refreshed where they stand.
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
            // x1: external owners are fine, also if they are called the same.
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
            // What holds it keeps it, whatever its version and wherever it stands.
            (
                vec!["infra.example/v2 Cloud b 1"],
                vec![],
                Verdict::Taken(owner("infra.example/v2 Cloud b 1")),
            ),
            (
                vec![OURS, "infra.example/v1 CloudIdentity a uid-a"],
                vec![FINALIZER],
                Verdict::Taken(owner("infra.example/v1 CloudIdentity a uid-a")),
            ),
        ] {
            let owned: Vec<_> = owners.iter().map(|text| owner(text)).collect();
            let finalizers: Vec<_> = finalizers.iter().map(|one| (*one).to_owned()).collect();
            let told = claimant("Cloud", "a").claim(&owned, &finalizers);
            assert_eq!(told, verdict, "{owners:?} {finalizers:?}");
        }
    }

    #[test]
    fn x9_the_last_of_ours_who_lets_go_takes_the_finalizer_along() {
        let sealed = "bitnami.com/v1alpha1 SealedSecret s 1";
        let other = "infra.example/v2 CloudIdentity b 1";
        for (owners, finalizers, verdict) in [
            (vec![], vec![], Verdict::Right),
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
            (vec![other], vec![FINALIZER], Verdict::Right),
        ] {
            let owned: Vec<_> = owners.iter().map(|text| owner(text)).collect();
            let finalizers: Vec<_> = finalizers.iter().map(|one| (*one).to_owned()).collect();
            let told = claimant("Cloud", "a").release(&owned, &finalizers);
            assert_eq!(told, verdict, "{owners:?} {finalizers:?}");
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
        fn c4_whoever_claims_and_lets_go_leaves_no_trace_and_touches_no_other(
            owners in prop::collection::vec(any_owner(), 0..4),
        ) {
            let me = claimant("Cloud", "a");
            let others: Vec<_> = owners.iter().filter(|one| !me.is(one)).cloned().collect();
            match me.claim(&owners, &[]) {
                Verdict::Write { owners: claimed, finalizers } => {
                    prop_assert_eq!(me.claim(&claimed, &finalizers), Verdict::Right);
                    prop_assert_eq!(claimed.iter().filter(|one| me.is(one)).count(), 1);
                    let released = me.release(&claimed, &finalizers);
                    prop_assert_eq!(released, Verdict::Write { owners: others, finalizers: vec![] });
                }
                Verdict::Taken(holder) => prop_assert!(me.is_sort(&holder) && !me.is(&holder)),
                Verdict::Right => prop_assert!(false, "the finalizer was not there"),
            }
        }
    }
}
