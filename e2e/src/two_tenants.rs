//! A server with two tenants that do everything concurrently under the same names.

use std::collections::BTreeMap;
use std::path::Path;
use std::thread;

use serde_json::Value;
use tempfile::TempDir;

use crate::insula::Insula;
use crate::kubectl::Kubectl;

/// The tenants.
pub const TENANTS: [&str; 2] = ["acme", "globex"];

/// A server, its administrator, and one administrator for each of two tenants.
pub struct TwoTenants {
    /// The server.
    pub server: Insula,
    /// The system administrator.
    pub system: Kubectl,
    /// The tenants' administrators.
    pub tenants: [Kubectl; 2],
    // Dropped after everything that uses it.
    folder: TempDir,
}

impl TwoTenants {
    /// Starts a server with the embedded store. Returns `None` and reports the skip if there is no
    /// kubectl.
    pub fn start() -> Option<Self> {
        Self::start_with(&[])
    }

    /// Starts a server with further arguments.
    ///
    /// # Panics
    ///
    /// If the server does not start or cannot create tenants.
    pub fn start_with(more: &[&str]) -> Option<Self> {
        let program = Kubectl::find()?;
        let folder = tempfile::tempdir().expect("a folder for the test");
        let server = Insula::start(&folder.path().join("data"), more);
        let user = |name: &str, kubeconfig: &Path| {
            let home = folder.path().join(name);
            std::fs::create_dir(&home).expect("it is a new folder");
            Kubectl::new(name, &program, kubeconfig, &home)
        };
        let tenants = TENANTS.map(|name| {
            let kubeconfig = folder.path().join(format!("{name}.kubeconfig"));
            let line = format!(
                "tenant create {name} --kubeconfig-out '{}'",
                kubeconfig.display()
            );
            assert_eq!(server.run(&line).succeeds(), format!("{name}\n"));
            user(name, &kubeconfig)
        });
        Some(Self {
            system: user("system", &server.kubeconfig()),
            server,
            tenants,
            folder,
        })
    }

    /// The working directory.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// A tenant's user with a certificate issued by the system administrator.
    ///
    /// # Panics
    ///
    /// If there is no such tenant.
    #[track_caller]
    pub fn user(&self, tenant: &str, name: &str, groups: &[&str]) -> Kubectl {
        let groups: String = groups
            .iter()
            .map(|group| format!(" --group {group}"))
            .collect();
        let line = format!("tenant kubeconfig {tenant} --user {name}{groups}");
        let kubeconfig = self.server.run(&line).succeeds();
        self.new_user(&format!("{tenant}-{name}"), &kubeconfig)
    }

    /// A user with a token only.
    pub fn bearer(&self, name: &str, token: &str) -> Kubectl {
        let authority = self.folder().join("data/pki/ca.crt");
        let kubeconfig = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: c\n\
             clusters: [{{name: c, cluster: {{server: '{}', certificate-authority: '{}'}}}}]\n\
             users: [{{name: u, user: {{token: '{token}'}}}}]\n\
             contexts: [{{name: c, context: {{cluster: c, user: u}}}}]\n",
            self.server.url(),
            authority.display(),
        );
        self.new_user(name, &kubeconfig)
    }

    /// A new user with this kubeconfig and its own directory.
    fn new_user(&self, name: &str, kubeconfig: &str) -> Kubectl {
        let home = self.folder().join(name);
        std::fs::create_dir(&home).expect("it is a new folder");
        let path = home.join("kubeconfig");
        std::fs::write(&path, kubeconfig).expect("it is in a new folder");
        Kubectl::new(name, self.system.program(), &path, &home)
    }

    /// Runs the action in both tenants concurrently.
    pub fn both(&self, act: impl Fn(&Kubectl) + Sync) {
        thread::scope(|scope| {
            for tenant in &self.tenants {
                let act = &act;
                let acts = move || act(tenant);
                // The thread has the tenant's name, so that a panic shows it.
                let thread = thread::Builder::new().name(tenant.name().to_owned());
                thread.spawn_scoped(scope, acts).expect("a thread starts");
            }
        });
    }

    /// Asserts that the system sees the same names in both spaces, and returns the items.
    ///
    /// # Panics
    ///
    /// If a name exists in only one space, or none exists at all.
    #[track_caller]
    pub fn sees_both(&self, path: &str) -> Vec<Value> {
        let text = self.system.get(&format!("get --raw {path}"));
        let list: Value = serde_json::from_str(&text).expect("a list is JSON");
        let items = list["items"].as_array().cloned().unwrap_or_default();
        let mut names: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for item in &items {
            let meta = |field: &str| item["metadata"][field].as_str().unwrap_or("").to_owned();
            let name = format!("{}/{}", meta("namespace"), meta("name"));
            names.entry(meta("tenant")).or_default().push(name);
        }
        let [one, other] = TENANTS.map(|name| names.remove(name).unwrap_or_default());
        assert_eq!(one, other, "{path}: {text}");
        assert!(!one.is_empty(), "{path}: {text}");
        items
    }
}
