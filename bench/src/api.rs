//! Benchmarks of the API server over TLS and HTTP/2, compared to a minimal server.

mod access;
mod azure;
mod brokers;
mod client;
mod customs;
mod definition;
mod deletion;
mod discovery;
mod etcd;
mod fanout;
mod fill;
mod floor;
mod formats;
mod kinds;
mod kubeconfig;
mod leases;
mod lists;
mod load;
mod metal3;
mod neighbours;
mod object_states;
mod objects;
mod pages;
mod plots;
mod published;
mod report;
mod server;
mod start;
mod subject;
mod targets;
mod tenants;
#[cfg(test)]
mod tests;
mod vsphere;
mod watches;
mod writes;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

pub use self::floor::{Args as FloorArgs, KubeconfigArgs, print_kubeconfig, serve as serve_floor};
pub use self::neighbours::{Args as NeighboursArgs, FloodArgs, run as run_neighbours, run_flood};
use self::report::Results;
use self::server::{Program, Server, Store};
use self::subject::Subject;
use crate::figures::Figures;
use crate::heading;
use crate::report::{progress, text};
use crate::system::data_folder;

/// Arguments of the server: what requests of a tenant cost is measured, not how many it may
/// send, nor how much it may store.
const UNLIMITED: [&str; 4] = [
    "--tenant-limits-default",
    "requestsPerSecond=none",
    "--tenant-quota-default",
    "none",
];

/// Options of the API benchmark.
#[derive(clap::Args)]
pub struct Args {
    /// The server to measure [default: `insula` beside this program].
    #[arg(long)]
    server: Option<PathBuf>,
    /// Store of the server.
    #[arg(long, value_enum, default_value = "embedded")]
    store: Store,
    /// Parts to measure; `floor` measures the floor as well.
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<Part>,
    /// Operations of each kind.
    #[arg(long, default_value_t = Sizes::FULL.operations)]
    ops: usize,
    /// Maximum number of tenants.
    #[arg(long, default_value_t = Sizes::FULL.tenants.tenants)]
    tenants: usize,
    /// Folder with definitions to publish to all tenants, such as `tools/asogen/generate
    /// --released` writes; without it, `published` is not measured.
    #[arg(long, value_name = "FOLDER")]
    definitions: Option<PathBuf>,
    /// Run a smoke test with very small sizes.
    #[arg(long)]
    quick: bool,
    /// Folder for plots of how cost grows, as SVG.
    #[arg(long, value_name = "FOLDER")]
    plots: Option<PathBuf>,
    /// Date to print with the figures.
    #[arg(long)]
    date: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Part {
    Start,
    /// Starts with many objects and with many tenants, which `start` includes.
    FullStart,
    Fill,
    Writes,
    Lists,
    Pages,
    Formats,
    Watches,
    Fanout,
    Etcd,
    Tenants,
    Access,
    Customs,
    Discovery,
    Leases,
    Deletion,
    Brokers,
    Vsphere,
    Metal3,
    Azure,
    Published,
    Floor,
}

/// Sizes of the measurements.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    rounds: usize,
    operations: usize,
    objects: usize,
    lists: usize,
    start: start::Size,
    fill: fill::Size,
    pages: pages::Size,
    formats: formats::Size,
    watches: [Watch; 2],
    fanout: fanout::Size,
    etcd: etcd::Size,
    tenants: tenants::Size,
    access: access::Size,
    customs: customs::Size,
    discovery: discovery::Size,
    leases: leases::Size,
    deletion: deletion::Size,
    brokers: brokers::Size,
    vsphere: vsphere::Size,
    metal3: metal3::Size,
    azure: azure::Size,
}

/// Numbers of changes and watchers.
#[derive(Clone, Copy, Debug)]
struct Watch {
    /// The prefix of its figures.
    name: &'static str,
    watchers: usize,
    events: usize,
}

impl Sizes {
    /// The sizes of the targets. There are enough events to measure CPU time, which is counted
    /// in ticks of 10 ms, to a few percent.
    const FULL: Self = Self {
        rounds: 3,
        operations: 20_000,
        objects: 5_000,
        lists: 160,
        start: start::Size {
            objects: 1_000_000,
            tenants: 100_000,
        },
        fill: fill::Size {
            objects: 1_000_000,
            step: 100_000,
            burst: 20_000,
            large: 100,
        },
        pages: pages::Size {
            objects: [5_000, 100_000, 1_000_000],
            pages: 200,
            converging: 55_000,
            writes: 1_000,
        },
        formats: formats::Size {
            objects: 5_000,
            lists: 40,
            secrets: 40,
            watchers: 50,
            events: 400,
            readers: 20,
            read_objects: 50_000,
        },
        watches: [
            Watch {
                name: "some watchers",
                watchers: 100,
                events: 2_000,
            },
            Watch {
                name: "many watchers",
                watchers: 1_000,
                events: 400,
            },
        ],
        fanout: fanout::Size {
            others: [1, 100, 1_000, 10_000],
            writes: 4_000,
            window: Duration::from_secs(10),
            watchers: 1_000,
            events: 400,
        },
        etcd: etcd::Size {
            objects: 5_000,
            gets: 20_000,
        },
        tenants: tenants::Size {
            tenants: 10_000,
            operations: 10_000,
            watchers: 100,
            events: 1_000,
        },
        access: access::Size {
            tenants: 10_000,
            operations: 10_000,
            rounds: 3,
            roles: 200,
            bindings: 1_000,
        },
        customs: customs::Size {
            tenants: 10_000,
            operations: 10_000,
            checks: 20_000,
        },
        discovery: discovery::Size {
            definitions: 50,
            operations: 2_000,
        },
        leases: leases::Size {
            holders: 1_000,
            renewals: 10,
            rounds: 3,
        },
        deletion: deletion::Size {
            objects: 10_000,
            tenants: 1_000,
        },
        brokers: brokers::Size {
            at_once: 100,
            many: 1_000,
        },
        vsphere: vsphere::Size {
            clusters: 1_000,
            identities: 10,
            window: Duration::from_secs(15),
        },
        metal3: metal3::Size {
            machines: 500,
            pools: 10,
        },
        azure: azure::Size {
            resources: 2_000,
            namespaces: 50,
        },
    };
    /// Sizes small enough for a test.
    const QUICK: Self = Self {
        rounds: 2,
        operations: 200,
        objects: 50,
        lists: 8,
        start: start::Size {
            objects: 500,
            tenants: 20,
        },
        fill: fill::Size {
            objects: 300,
            step: 200,
            burst: 100,
            large: 2,
        },
        pages: pages::Size {
            objects: [600, 1_100, 2_100],
            pages: 3,
            converging: 1_100,
            writes: 100,
        },
        formats: formats::Size {
            objects: 50,
            lists: 4,
            secrets: 2,
            watchers: 3,
            events: 10,
            readers: 2,
            read_objects: 100,
        },
        watches: [
            Watch {
                name: "some watchers",
                watchers: 5,
                events: 20,
            },
            Watch {
                name: "many watchers",
                watchers: 120,
                events: 10,
            },
        ],
        fanout: fanout::Size {
            others: [1, 5, 10, 20],
            writes: 20,
            window: Duration::from_millis(200),
            watchers: 5,
            events: 10,
        },
        etcd: etcd::Size {
            objects: 50,
            gets: 200,
        },
        tenants: tenants::Size {
            tenants: 200,
            operations: 100,
            watchers: 5,
            events: 20,
        },
        access: access::Size {
            tenants: 20,
            operations: 100,
            rounds: 2,
            roles: 10,
            bindings: 20,
        },
        customs: customs::Size {
            tenants: 20,
            operations: 100,
            checks: 200,
        },
        discovery: discovery::Size {
            definitions: 3,
            operations: 20,
        },
        leases: leases::Size {
            holders: 20,
            renewals: 3,
            rounds: 2,
        },
        deletion: deletion::Size {
            objects: 200,
            tenants: 20,
        },
        brokers: brokers::Size {
            at_once: 5,
            many: 10,
        },
        vsphere: vsphere::Size {
            clusters: 20,
            identities: 2,
            window: Duration::from_secs(1),
        },
        metal3: metal3::Size {
            machines: 20,
            pools: 2,
        },
        azure: azure::Size {
            resources: 20,
            namespaces: 2,
        },
    };

    fn lists(&self) -> lists::Size {
        lists::Size {
            objects: self.objects,
            writes: self.operations,
            lists: self.lists,
        }
    }

    /// Returns whether a part has the size of its targets.
    fn is_full(&self, part: Part) -> bool {
        let full = Self::FULL;
        let is_long = self.operations >= full.operations;
        match part {
            Part::FullStart => self.start.objects >= full.start.objects,
            Part::Fill => self.fill.objects >= full.fill.objects,
            Part::Start | Part::Published | Part::Floor => true,
            Part::Writes => is_long,
            Part::Lists => is_long && self.objects >= full.objects && self.lists >= full.lists,
            Part::Pages => self.pages.objects == full.pages.objects,
            Part::Formats => {
                self.formats.objects >= full.formats.objects
                    && self.formats.read_objects >= full.formats.read_objects
            }
            Part::Watches => {
                let watchers = |sizes: &Self| sizes.watches.map(|watch| watch.watchers);
                watchers(self) == watchers(&full)
            }
            Part::Fanout => self.fanout.others == full.fanout.others,
            Part::Etcd => self.etcd.gets >= full.etcd.gets,
            Part::Tenants => self.tenants.tenants >= full.tenants.tenants,
            Part::Access => is_long && self.access.tenants >= full.access.tenants,
            Part::Customs => is_long && self.customs.tenants >= full.customs.tenants,
            Part::Discovery => is_long && self.discovery.definitions >= full.discovery.definitions,
            Part::Leases => self.leases.holders >= full.leases.holders,
            Part::Deletion => self.deletion.objects >= full.deletion.objects,
            Part::Brokers => self.brokers.many >= full.brokers.many,
            Part::Vsphere => self.vsphere.clusters >= full.vsphere.clusters,
            Part::Metal3 => self.metal3.machines >= full.metal3.machines,
            Part::Azure => self.azure.resources >= full.azure.resources,
        }
    }
}

impl Args {
    fn sizes(&self) -> Sizes {
        if self.quick {
            return Sizes::QUICK;
        }
        let mut sizes = Sizes::FULL;
        sizes.operations = self.ops.max(1);
        sizes.tenants.operations = sizes.operations.div_ceil(2);
        sizes.tenants.tenants = self.tenants;
        sizes.access.operations = sizes.tenants.operations;
        sizes.access.tenants = self.tenants;
        sizes.customs.operations = sizes.tenants.operations;
        sizes.customs.tenants = self.tenants;
        sizes
    }

    fn wants(&self, part: Part) -> bool {
        self.only.is_empty() || self.only.contains(&part)
    }

    fn program(&self) -> Result<Program> {
        let path = match &self.server {
            Some(path) => path.clone(),
            None => std::env::current_exe()?.with_file_name("insula"),
        };
        ensure!(path.is_file(), "there is no server {}", path.display());
        let mut program = Program {
            path,
            command: "serve",
            store: self.store,
            more: Vec::new(),
        };
        if !program.is_floor() {
            program.more.extend(UNLIMITED.map(OsString::from));
        }
        Ok(program)
    }
}

/// Measures all selected parts, and prints the report.
pub async fn run(args: &Args) -> Result<()> {
    let (program, sizes) = (args.program()?, args.sizes());
    let folder = data_folder()?;
    text("# The API server, measured over TLS and HTTP/2\n");
    heading::machine(args.date.as_deref(), &folder)?;
    report::heading(&program);
    heading::warn_of_slow_build();
    report::notes();
    heading::raw_sync(&folder, Duration::from_secs(5))?;
    let mut results = Results::default();
    if args.wants(Part::Floor) {
        results.floor = of_floor(args, sizes).await.context("of the floor")?;
    }
    let measured = of_server(args, &program, sizes).await;
    results.insula = measured.figures;
    results.print(&sizes);
    if let Some(folder) = &args.plots {
        plots::write(folder, &results.insula, &sizes)?;
    }
    targets::print(&results.insula, &results.floor, &sizes, |part| {
        args.wants(part) || (part == Part::FullStart && args.wants(Part::Start))
    });
    let failed = measured.failed;
    ensure!(failed.is_empty(), "not measured: {}", failed.join(", "));
    Ok(())
}

/// The figures of the parts, and the names of those that failed.
#[derive(Default)]
struct Measurements {
    figures: Figures,
    failed: Vec<&'static str>,
}

impl Measurements {
    /// Takes the figures of a part. One that fails leaves those of the others alone, which take
    /// most of an hour.
    fn take(&mut self, part: &'static str, measured: Result<Figures>) {
        match measured {
            Ok(figures) => self.figures = std::mem::take(&mut self.figures).and(figures),
            Err(error) => {
                progress(&format!("FAILED: {part}: {error:#}"));
                self.failed.push(part);
            }
        }
    }
}

async fn of_server(args: &Args, program: &Program, sizes: Sizes) -> Measurements {
    let mut all = Measurements::default();
    all.take("requests", requests(args, program, sizes).await);
    if args.wants(Part::Tenants) {
        let measure = async |subject: &Subject| tenants::measure(subject, sizes.tenants).await;
        all.take("tenants", on_new(program, measure).await);
    }
    if args.wants(Part::Access) {
        let measure = async |server: &Server| access::measure(server, sizes.access).await;
        let measured = on_new_server(program, measure).await;
        all.take("access", measured.map(|figures| figures.under("access")));
    }
    if args.wants(Part::Customs) {
        let measure = async |subject: &Subject| customs::measure(subject, sizes.customs).await;
        all.take("custom kinds", on_new(program, measure).await);
    }
    if args.wants(Part::Discovery) {
        let measure = async |server: &Server| discovery::measure(server, sizes.discovery).await;
        let measured = on_new_server(program, measure).await;
        let named = measured.map(|figures| figures.under("many kinds"));
        all.take("discovery", named);
    }
    if args.wants(Part::Leases) {
        let measure = async |subject: &Subject| leases::measure(subject, sizes.leases).await;
        all.take("leases", on_new(program, measure).await);
    }
    if args.wants(Part::Deletion) {
        let measure = async |subject: &Subject| deletion::measure(subject, sizes.deletion).await;
        all.take("deletion", on_new(program, measure).await);
    }
    // The floor has neither operators nor users of tenants, and speaks JSON only.
    if program.is_floor() {
        return all;
    }
    if args.wants(Part::Start) || args.wants(Part::FullStart) {
        let measured = start::with_contents(program, sizes.start).await;
        all.take("starts with contents", measured);
    }
    if args.wants(Part::Fill) {
        all.take("filling", fill::measure(program, sizes.fill).await);
    }
    if args.wants(Part::Pages) {
        all.take("pages", pages::measure(program, sizes.pages).await);
    }
    if args.wants(Part::Formats) {
        let measure = async |subject: &Subject| formats::measure(subject, sizes.formats).await;
        all.take("formats", on_new(program, measure).await);
    }
    if args.wants(Part::Fanout) {
        all.take("fan-out", fanout::measure(program, sizes.fanout).await);
    }
    if args.wants(Part::Etcd) {
        all.take("gets with etcd", etcd::measure(program, sizes.etcd).await);
    }
    if args.wants(Part::Brokers) {
        all.take("brokers", brokers::measure(program, sizes.brokers).await);
    }
    if args.wants(Part::Vsphere) {
        all.take("vSphere", vsphere::measure(program, sizes.vsphere).await);
    }
    if args.wants(Part::Metal3) {
        all.take("Metal3", metal3::measure(program, sizes.metal3).await);
    }
    if args.wants(Part::Azure) {
        all.take("Azure", azure::measure(program, sizes.azure).await);
    }
    if let Some(folder) = &args.definitions
        && args.wants(Part::Published)
    {
        all.take("published kinds", published::measure(program, folder).await);
    }
    all
}

/// The floor has no tenants, and one round is enough because it stores nothing.
async fn of_floor(args: &Args, mut sizes: Sizes) -> Result<Figures> {
    progress("the floor");
    sizes.rounds = 1;
    let program = Program {
        path: std::env::current_exe()?,
        command: "floor",
        store: Store::Memory,
        more: Vec::new(),
    };
    requests(args, &program, sizes).await
}

/// Measures the parts that apply to both the server and the floor.
async fn requests(args: &Args, program: &Program, sizes: Sizes) -> Result<Figures> {
    let mut figures = Figures::default();
    if args.wants(Part::Start) {
        figures = figures.and(start::measure(program).await?);
    }
    if args.wants(Part::Writes) {
        let measure = async |subject: &Subject| {
            writes::measure(subject, sizes.operations, sizes.rounds).await
        };
        figures = figures.and(on_new(program, measure).await.context("of requests")?);
    }
    if args.wants(Part::Lists) {
        let measure = async |subject: &Subject| lists::measure(subject, sizes.lists()).await;
        figures = figures.and(on_new(program, measure).await.context("of lists")?);
    }
    if args.wants(Part::Watches) {
        for watch in sizes.watches {
            let measure = async |subject: &Subject| watched(subject, watch).await;
            figures = figures.and(on_new(program, measure).await.context("of watches")?);
        }
    }
    Ok(figures)
}

async fn watched(subject: &Subject, watch: Watch) -> Result<Figures> {
    let client = subject.connect(1).await?;
    subject.namespace(&client, "watched").await?;
    let collection = objects::collection("watched");
    let figures = watches::measure(subject, &collection, watch.watchers, watch.events).await?;
    Ok(figures.under(watch.name))
}

/// Measures on a new server.
async fn on_new(
    program: &Program,
    measure: impl AsyncFnOnce(&Subject) -> Result<Figures>,
) -> Result<Figures> {
    on_new_server(program, async |server| measure(&server.subject).await).await
}

/// Measures on a new server, with credentials that it issues.
async fn on_new_server(
    program: &Program,
    measure: impl AsyncFnOnce(&Server) -> Result<Figures>,
) -> Result<Figures> {
    let server = program.start()?;
    let figures = measure(&server).await?;
    server.stop()?;
    Ok(figures)
}
