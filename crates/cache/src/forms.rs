//! The templates of the objects that every space has, while many of them are loaded.

use std::sync::Arc;

use insula_core::Revision;
use insula_kinds::KindId;

use crate::entry::{Stored, write_with_revision};
use crate::pool::Pool;
use crate::template::Template;

/// The object of each kind and key that was last held as a template. The next one is nearly
/// always alike, and then shares its key and its template without a search for either.
#[derive(Debug, Default)]
pub(crate) struct Forms {
    last: Vec<Last>,
    text: Vec<u8>,
}

#[derive(Debug)]
struct Last {
    kind: KindId,
    key: Arc<str>,
    template: Template,
}

impl Forms {
    /// Returns the object that the store holds as `value`, as a template if that is possible.
    pub fn templated(
        &mut self,
        kind: KindId,
        key: &str,
        revision: Revision,
        value: &[u8],
        pool: &Arc<Pool>,
    ) -> Stored {
        self.text.clear();
        write_with_revision(value, revision, &mut self.text);
        let is_same = |last: &&mut Last| last.kind == kind && *last.key == *key;
        let last = self.last.iter_mut().find(is_same);
        if let Some(last) = &last
            && let Some(template) = Template::like(&last.template, &self.text)
        {
            return Stored::filled(Arc::clone(&last.key), revision, template);
        }
        let key: Arc<str> = last
            .as_ref()
            .map_or_else(|| key.into(), |last| Arc::clone(&last.key));
        let Some(template) = Template::of(&self.text, pool) else {
            return Stored::new(key, revision, value);
        };
        let like = template.at(revision);
        match last {
            Some(last) => last.template = like,
            None => self.last.push(Last {
                kind,
                key: Arc::clone(&key),
                template: like,
            }),
        }
        Stored::filled(key, revision, template)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use insula_kinds::core_kind;

    fn account(tenant: &str, uid: &str) -> String {
        format!(
            r#"{{"kind":"ServiceAccount","metadata":{{"name":"default","namespace":"default","selfLink":"/api/v1/tenants/{tenant}/namespaces/default/serviceaccounts/default","uid":"{uid}","tenant":"{tenant}"}}}}"#
        )
    }

    #[test]
    fn objects_that_are_alike_share_key_and_form() {
        let (mut forms, pool) = (Forms::default(), Arc::new(Pool::default()));
        let kind = core_kind("serviceaccounts");
        let edited = account("t3", "u-3").replace("}}", r#"},"secrets":[]}"#);
        let texts = [
            account("t1", "u-1"),
            account("a-longer-name", "u-22"),
            edited.clone(),
            edited.replace("t3", "t4"),
            account("t5", "u-5"),
            "{}".to_owned(),
        ];
        let mut loaded = vec![];
        for (text, revision) in texts.iter().zip([5, 1_000, 7, 8, 99, 3]) {
            let revision = Revision::new(revision);
            let object = forms.templated(kind, "default/default", revision, text.as_bytes(), &pool);
            let expected = Stored::templated("k".into(), revision, text.as_bytes(), &pool);
            assert_eq!(object.body(), expected.body());
            assert_eq!(object.uid(), expected.uid());
            assert_eq!(object.is_shared(), expected.is_shared());
            let later = Revision::new(12);
            assert_eq!(object.deleted(later).body(), expected.deleted(later).body());
            loaded.push(object);
        }
        assert_eq!(pool.count(), 2, "the usual form and the edited one");
        let first = &loaded[0].key;
        assert!(loaded.iter().all(|object| Arc::ptr_eq(&object.key, first)));
        drop((forms, loaded));
        assert_eq!(pool.count(), 0);
    }
}
