// Exercises the official JavaScript client against a cluster.
//
// Two tenants run it concurrently under the same names. It prints the name of each check that
// passed and exits at the first failure. Arguments: the client's directory, the tenant.

import { deepStrictEqual as same } from 'node:assert';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

const [folder, who] = process.argv.slice(2);
const entry = join(folder, 'node_modules/@kubernetes/client-node/dist/index.js');
const k8s = await import(pathToFileURL(entry).href);

const namespace = 'javascript';
const PATIENCE = 60_000;

const config = new k8s.KubeConfig();
config.loadFromDefault();
const core = config.makeApiClient(k8s.CoreV1Api);
const apps = config.makeApiClient(k8s.AppsV1Api);
const custom = config.makeApiClient(k8s.CustomObjectsApi);
const objects = k8s.KubernetesObjectApi.makeApiClient(config);

const patch = (type) => k8s.setHeaderOptions('Content-Type', type);

const configMap = (name, data) => ({ metadata: { name, labels: { app: name } }, data });

async function refused(code, act) {
    try {
        await act();
    } catch (error) {
        same(error.code, code);
        return JSON.parse(error.body).message;
    }
    throw new Error(`not refused with ${code}`);
}

async function until(what, condition) {
    const deadline = Date.now() + PATIENCE;
    while (!(await condition())) {
        if (Date.now() > deadline) throw new Error(`never: ${what}`);
        await new Promise((resolve) => setTimeout(resolve, 20));
    }
}

const laws = {
    async 'objects are created read listed replaced and deleted'() {
        const made = await core.createNamespacedConfigMap({ namespace, body: configMap('a', { who }) });
        same((await core.readNamespacedConfigMap({ name: 'a', namespace })).data, { who });
        await core.createNamespacedConfigMap({ namespace, body: configMap('b', { who }) });
        const list = await core.listNamespacedConfigMap({ namespace, labelSelector: 'app in (a,b)' });
        same(list.items.map((item) => item.metadata.name), ['a', 'b']);
        made.data = { who, more: '1' };
        await core.replaceNamespacedConfigMap({ name: 'a', namespace, body: made });
        const stale = () => core.replaceNamespacedConfigMap({ name: 'a', namespace, body: made });
        same((await refused(409, stale)).includes('the object has been modified'), true);
        await core.deleteNamespacedConfigMap({ name: 'a', namespace });
        const gone = () => core.readNamespacedConfigMap({ name: 'a', namespace });
        same(await refused(404, gone), 'configmaps "a" not found');
        await core.deleteCollectionNamespacedConfigMap({ namespace, labelSelector: 'app=b' });
        const left = await core.listNamespacedConfigMap({ namespace, labelSelector: 'app' });
        same(left.items, []);
    },

    async 'every patch type works'() {
        const labels = { app: 'web' };
        const main = { name: 'main', image: 'web:1' };
        const body = {
            metadata: { name: 'web' },
            spec: {
                replicas: 2,
                selector: { matchLabels: labels },
                template: { metadata: { labels }, spec: { containers: [main] } },
            },
        };
        await apps.createNamespacedDeployment({ namespace, body });
        const web = (body, type, more = {}) =>
            apps.patchNamespacedDeployment({ name: 'web', namespace, body, ...more }, patch(type));
        let found = await web(
            [{ op: 'replace', path: '/spec/replicas', value: 3 }],
            k8s.PatchStrategy.JsonPatch,
        );
        same(found.spec.replicas, 3);
        found = await web({ metadata: { labels: { who } } }, k8s.PatchStrategy.MergePatch);
        same([found.metadata.labels.who, found.metadata.generation], [who, 2]);
        const containers = [{ name: 'side', image: 'side:1' }];
        found = await web(
            { spec: { template: { spec: { containers } } } },
            k8s.PatchStrategy.StrategicMergePatch,
        );
        const names = (found) => found.spec.template.spec.containers.map((one) => one.name);
        same(names(found), ['side', 'main']);
        const applied = {
            apiVersion: 'apps/v1',
            kind: 'Deployment',
            metadata: { name: 'web' },
            spec: { template: { spec: { containers: [{ name: 'main', image: 'web:2' }] } } },
        };
        const serverSide = k8s.PatchStrategy.ServerSideApply;
        await refused(409, () => web(applied, serverSide, { fieldManager: 'js' }));
        found = await web(applied, serverSide, { fieldManager: 'js', force: true });
        const images = found.spec.template.spec.containers.map((one) => one.image);
        same(images.sort(), ['side:1', 'web:2']);
    },

    async 'watches deliver the namespaces events only'() {
        const list = await core.listNamespacedConfigMap({ namespace });
        const told = [];
        const query = { labelSelector: 'app=seen', resourceVersion: list.metadata.resourceVersion };
        const watching = new Promise((resolve, reject) => {
            const path = `/api/v1/namespaces/${namespace}/configmaps`;
            const event = (type, object) => {
                told.push([type, object.data.step]);
                if (type === 'DELETED') resolve();
            };
            const done = (error) => (error ? reject(error) : resolve());
            new k8s.Watch(config).watch(path, query, event, done).then(
                (request) => (watching.request = request),
                reject,
            );
        });
        await core.createNamespacedConfigMap({ namespace, body: configMap('seen', { step: '1' }) });
        await core.patchNamespacedConfigMap(
            { name: 'seen', namespace, body: { data: { step: '2' } } },
            patch(k8s.PatchStrategy.MergePatch),
        );
        await core.createNamespacedConfigMap({ namespace, body: configMap('other', {}) });
        await core.deleteNamespacedConfigMap({ name: 'seen', namespace });
        await watching;
        watching.request?.abort();
        same(told, [['ADDED', '1'], ['MODIFIED', '2'], ['DELETED', '2']]);
    },

    async 'informers follow changes'() {
        const path = `/api/v1/namespaces/${namespace}/secrets`;
        const informer = k8s.makeInformer(config, path, () => core.listNamespacedSecret({ namespace }));
        const seen = [];
        for (const kind of ['add', 'update', 'delete']) {
            informer.on(kind, (object) => seen.push(`${kind} ${object.metadata.name}`));
        }
        await informer.start();
        const body = { metadata: { name: 'followed' }, stringData: { who } };
        await core.createNamespacedSecret({ namespace, body });
        await until('it is seen', () => seen.includes('add followed'));
        const data = Buffer.from(who).toString('base64');
        same(informer.get('followed', namespace).data, { who: data });
        await core.deleteNamespacedSecret({ name: 'followed', namespace });
        await until('its end is seen', () => seen.includes('delete followed'));
        await informer.stop();
    },

    async 'custom resources work without types'() {
        const spec = { type: 'object', properties: { size: { type: 'integer', minimum: 1 } } };
        await config.makeApiClient(k8s.ApiextensionsV1Api).createCustomResourceDefinition({
            body: {
                metadata: { name: 'boats.js.example' },
                spec: {
                    group: 'js.example',
                    scope: 'Namespaced',
                    names: { kind: 'Boat', plural: 'boats', singular: 'boat' },
                    versions: [
                        {
                            name: 'v1',
                            served: true,
                            storage: true,
                            schema: { openAPIV3Schema: { type: 'object', properties: { spec } } },
                        },
                    ],
                },
            },
        });
        const place = { group: 'js.example', version: 'v1', namespace, plural: 'boats' };
        const body = (name, size) => ({
            apiVersion: 'js.example/v1',
            kind: 'Boat',
            metadata: { name },
            spec: { size },
        });
        await until('the kind is served', () =>
            custom.listNamespacedCustomObject(place).then(() => true, () => false),
        );
        await custom.createNamespacedCustomObject({ ...place, body: body('ark', 3) });
        const found = await custom.getNamespacedCustomObject({ ...place, name: 'ark' });
        same(found.spec, { size: 3 });
        const bad = () => custom.createNamespacedCustomObject({ ...place, body: body('raft', 0) });
        const said = await refused(422, bad);
        same(said.includes('spec.size in body should be greater than or equal to 1'), true);
    },

    async 'objects of any kind are found by discovery and applied'() {
        const spec = (size) => ({
            apiVersion: 'js.example/v1',
            kind: 'Boat',
            metadata: { name: 'canoe', namespace },
            spec: { size },
        });
        const apply = (spec) =>
            objects.patch(spec, undefined, undefined, 'js', true, k8s.PatchStrategy.ServerSideApply);
        same((await apply(spec(1))).spec, { size: 1 });
        const found = await apply(spec(2));
        same([found.spec, found.metadata.generation], [{ size: 2 }, 2]);
        await objects.delete(spec(2));
        await refused(404, () => objects.read(spec(2)));
    },
};

await core.createNamespace({ body: { metadata: { name: namespace } } });
for (const [name, holds] of Object.entries(laws)) {
    try {
        await holds();
    } catch (error) {
        console.error(name, error);
        process.exit(1);
    }
    console.log(name);
}
await core.deleteNamespace({ name: namespace });
await until('the namespace is gone', () =>
    core.readNamespace({ name: namespace }).then(() => false, (error) => error.code === 404),
);
console.log('deleting the namespace deletes its content');
process.exit(0);
