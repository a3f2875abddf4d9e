import { execFileSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { parse, parseAllDocuments } from "yaml";
import { SERVE_SETTINGS, serveEnvironment } from "../../scripts/serve-settings.ts";
import { WORKER_SETTINGS, workerSettings } from "../../scripts/settings.ts";

/** The compose file, the Helm chart and the DaemonSet of deploy/. Templates use only values, `quote` and a plain `if`, so that this test renders them. */

/** The path of helm 3, which is not among the dependencies: `go install helm.sh/helm/v3/cmd/helm@v3.19.0` builds it. */
const HELM = process.env["HELM"] ?? "";
const CHART = "deploy/helm/sallyport";
const SETTINGS = [...SERVE_SETTINGS, ...WORKER_SETTINGS, "MASTER_KEY"];

const values = parse(readFileSync(join(CHART, "values.yaml"), "utf8"));
const used = new Set<string>();

/** A block of whole lines, which stay when a value is not empty. */
const BLOCK = /^ *\{\{- if (\.Values[\w.]+) \}\}\n(.*?)^ *\{\{- end \}\}\n/gms;

type Values = typeof values;

const valueAt = (path: string, given: Values): unknown => {
  used.add(path.replace(/^\.?Values\./, ""));
  const scope: unknown = { Values: given, Release: { Name: "vault" } };
  return path
    .replace(/^\./, "")
    .split(".")
    .reduce((at: unknown, key) => (at as Record<string, unknown> | undefined)?.[key], scope);
};

/** The text of a template. @throws Error for an action that the renderer does not know, and for an absent value */
function rendered(text: string, given: Values): string {
  const template = text.replace(BLOCK, (_block, path: string, lines: string) => (valueAt(path, given) ? lines : ""));
  return template.replace(/\{\{(.*?)\}\}/g, (_action, inner: string) => {
    const [, path = "", quote] = /^ \.((?:Values|Release)(?:\.\w+)+)( \| quote)? $/.exec(inner) ?? [];
    const value = valueAt(path, given);
    if (value === undefined || typeof value === "object") throw new Error(`no value for {{${inner}}}`);
    return quote ? JSON.stringify(String(value)) : String(value);
  });
}

/** The documents by kind. */
const documentsOf = (given: Values) =>
  Object.fromEntries(
    readdirSync(join(CHART, "templates")).map((name) => {
      const document = parse(rendered(readFileSync(join(CHART, "templates", name), "utf8"), given));
      return [document.kind as string, document];
    }),
  );
const documents = documentsOf(values);
/** With private authorities in a Secret. */
const trusting = { ...values, trustedCas: { name: "corporate", kind: "secret", key: "tls.pem" } };
const trustingDocuments = documentsOf(trusting);
const pod = documents["StatefulSet"].spec.template;
const [container] = pod.spec.containers;

/** The dotted paths of all values. */
const paths = (at: object, above = ""): string[] =>
  Object.entries(at).flatMap(([key, value]) =>
    typeof value === "object" ? paths(value, `${above}${key}.`) : [`${above}${key}`],
  );

describe("deploy/helm/sallyport", () => {
  it("uses each of its values, and is of the release", () => {
    expect(paths(values).filter((path) => !used.has(path))).toEqual([]);
    const { version } = JSON.parse(readFileSync("package.json", "utf8"));
    const chart = parse(readFileSync(join(CHART, "Chart.yaml"), "utf8"));
    expect([chart.version, chart.appVersion]).toEqual([version, version]);
  });

  it("runs one replica, whose volume no second pod can use", () => {
    const { replicas, volumeClaimTemplates, selector } = documents["StatefulSet"].spec;
    expect([replicas, volumeClaimTemplates[0].spec.accessModes]).toEqual([1, ["ReadWriteOncePod"]]);
    expect(pod.metadata.labels).toEqual(selector.matchLabels);
    expect(documents["Service"].spec.selector).toEqual(selector.matchLabels);
    expect(documents["Service"].spec.ports[0].targetPort).toBe(container.ports[0].name);
  });

  it("is not root, cannot write its code, and has no right at the cluster", () => {
    expect(pod.spec).toMatchObject({ automountServiceAccountToken: false, securityContext: { runAsNonRoot: true } });
    expect(container.securityContext).toEqual({
      allowPrivilegeEscalation: false,
      readOnlyRootFilesystem: true,
      capabilities: { drop: ["ALL"] },
    });
    const mounts = container.volumeMounts.map(({ name }: { name: string }) => name);
    const volumes = [
      ...pod.spec.volumes,
      { name: documents["StatefulSet"].spec.volumeClaimTemplates[0].metadata.name },
    ];
    expect(mounts.sort()).toEqual(volumes.map(({ name }) => name).sort());
  });

  it("has the key in a Secret and a file only, and settings that are read", () => {
    const env = Object.fromEntries(container.env.map(({ name, value }: Record<string, string>) => [name, value]));
    expect(Object.keys(env).filter((name) => !SETTINGS.includes(name))).toEqual([]);
    expect(env["MASTER_KEY"]).toBeUndefined();
    const bootstrap = container.env.find(({ name }: { name: string }) => name === "BOOTSTRAP_SECRET");
    expect(bootstrap.valueFrom.secretKeyRef).toEqual({
      name: values.masterKeySecret,
      key: "bootstrap-secret",
      optional: true,
    });
    const keys = container.volumeMounts.find(({ name }: { name: string }) => name === "keys");
    expect(env["MASTER_KEY_FILE"]).toBe(`${keys.mountPath}/master-key`);
    // The volume's own root may have entries of its file system, such as lost+found.
    expect(env["STATE_DIR"]).toMatch(/^\/var\/lib\/sallyport\/./);
    const seconds = Number.parseInt(env["STOP_TIMEOUT"] ?? "", 10);
    expect(pod.spec.terminationGracePeriodSeconds).toBeGreaterThan(seconds + 10);
  });

  it("mounts private authorities where TRUSTED_CAS reads them, and only when they are named", () => {
    expect(JSON.stringify(documents)).not.toMatch(/TRUSTED_CAS|"cas"/);
    const { containers, volumes } = trustingDocuments["StatefulSet"].spec.template.spec;
    const [{ env, volumeMounts }] = containers;
    const mount = volumeMounts.find(({ name }: { name: string }) => name === "cas");
    expect(mount.readOnly).toBe(true);
    expect(volumes.find(({ name }: { name: string }) => name === "cas").projected.sources).toEqual([
      { secret: { name: "corporate", items: [{ key: "tls.pem", path: "authorities.pem" }] } },
    ]);
    expect(env).toContainEqual({ name: "TRUSTED_CAS", value: `${mount.mountPath}/authorities.pem` });
  });
});

describe.runIf(HELM)("deploy/helm/sallyport, rendered by the program that HELM names", () => {
  it("has the same documents", () => {
    const { name, kind, key } = trusting.trustedCas;
    const trustedCas = [
      "--set",
      `trustedCas.name=${name},trustedCas.kind=${kind},trustedCas.key=${key.replace(".", "\\.")}`,
    ];
    for (const [settings, ours] of [
      [[], documents],
      [trustedCas, trustingDocuments],
    ] as const) {
      const args = ["template", "vault", CHART, "--kube-version", "1.31.0", ...settings];
      const text = execFileSync(HELM, args, { encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] });
      const theirs = parseAllDocuments(text).map((each) => each.toJS());
      expect(Object.fromEntries(theirs.map((each) => [each.kind, each]))).toEqual(ours);
    }
    expect(() => execFileSync(HELM, ["lint", CHART], { stdio: "pipe" })).not.toThrow();
  });
});

describe("deploy/compose.yaml", () => {
  const { services, volumes, secrets } = parse(readFileSync("deploy/compose.yaml", "utf8"));
  const { sallyport } = services;

  it("is not root, cannot write its code, and listens on this machine only", () => {
    expect(sallyport).toMatchObject({ user: "1000:1000", read_only: true, cap_drop: ["ALL"], tmpfs: ["/tmp"] });
    expect(sallyport.ports.every((port: string) => port.startsWith("127.0.0.1:"))).toBe(true);
  });

  it("has settings that are read, its state on a volume, and its key in a secret", () => {
    expect(Object.keys(sallyport.environment).filter((name) => !SETTINGS.includes(name))).toEqual([]);
    const [state, ...files] = sallyport.volumes;
    expect(state).toBe(`${Object.keys(volumes)[0]}:${sallyport.environment.STATE_DIR}`);
    // Without a file of the host, the setting is empty and the mount has nothing.
    const mounted = ["TRUSTED_CAS", "CONFIG"].map((name) => {
      const path = new RegExp(`^\\$\\{${name}_FILE:\\+(.+)\\}$`).exec(sallyport.environment[name])?.[1];
      return `\${${name}_FILE:-/dev/null}:${path}:ro`;
    });
    expect(files).toEqual(mounted);
    expect(Object.keys(secrets)).toEqual(sallyport.secrets);
    expect(sallyport.environment.MASTER_KEY_FILE).toBe(`/run/secrets/${sallyport.secrets[0]}`);
  });

  it("passes the settings of the first token, which may be empty", () => {
    for (const name of ["BOOTSTRAP_SECRET", "PUBLIC_URL"]) expect(sallyport.environment[name]).toBe(`\${${name}:-}`);
    const empty = { BOOTSTRAP_SECRET: "", PUBLIC_URL: "", CONFIG: "" };
    expect(workerSettings(serveEnvironment(empty))).toEqual({});
  });
});

it("git and images leave out the same files of a checkout, secrets included", () => {
  const patterns = (path: string) =>
    readFileSync(path, "utf8")
      .split("\n")
      .filter((line) => line !== "" && !line.startsWith("#"))
      .map((line) => line.replace(/^\/|^\*\*\/|\/$/g, "").replace(/\/$/, ""));
  const left = patterns(".dockerignore");
  expect(left).toEqual(expect.arrayContaining([...patterns(".gitignore"), ".git"]));
  // The secrets of `npm run deploy:first`, and of the commands above the compose file.
  expect(left).toEqual(expect.arrayContaining([".deployments", "deploy/secrets"]));
});

const CONTAINERFILES = ["deploy/Containerfile", "packages/relay/Containerfile", "agent/Containerfile"];

describe.each(CONTAINERFILES)("%s", (path) => {
  const lines = readFileSync(path, "utf8")
    .replaceAll("\\\n", " ")
    .split("\n")
    .filter((line) => line !== "" && !line.startsWith("#"));
  const steps = lines.map((line) => [line.split(" ", 1)[0] ?? "", line.slice(line.indexOf(" ") + 1)] as const);
  const of = (name: string) => steps.filter(([step]) => step === name).map(([, rest]) => rest);

  it("has steps that every builder knows, from a base of the supported Node", () => {
    const known = "FROM WORKDIR COPY RUN USER ENV VOLUME EXPOSE STOPSIGNAL HEALTHCHECK CMD ENTRYPOINT LABEL ARG".split(
      " ",
    );
    expect(steps.filter(([step]) => !known.includes(step))).toEqual([]);
    expect(of("FROM")).toEqual([`\${BASE}`]);
    // A full name: podman has no default registry.
    expect(of("ARG")[0]).toMatch(/^BASE=docker\.io\/library\/(node:24-bookworm|debian:13)-slim$/);
  });

  // Node.js has its own authorities, and workerd has none. Slim images of Node.js come without the package.
  it.runIf(path === "deploy/Containerfile")("installs the system's store of authorities", () => {
    expect(of("RUN").join("\n")).toMatch(/apt-get install .*--no-install-recommends ca-certificates/);
  });

  it("copies what is there, and starts programs that are there", () => {
    const sources = of("COPY").flatMap((rest) =>
      rest
        .split(/ +/)
        .filter((word) => !word.startsWith("--"))
        .slice(0, -1),
    );
    expect(
      sources.filter((source) => !existsSync(source) && !/(^|\/)(dist|build)\/|\.deb$|_\$\{ARCH\}/.test(source)),
    ).toEqual([]);
    const programs = [
      ...of("CMD"),
      ...of("ENTRYPOINT"),
      ...of("HEALTHCHECK").map((rest) => rest.replace(/^.*CMD /, "")),
    ];
    expect(programs.length).toBeGreaterThan(0);
    for (const program of programs) expect(JSON.parse(program)).toEqual(expect.arrayContaining([expect.any(String)]));
  });
});

describe("deploy/agent-daemonset.yaml", () => {
  const parts = parseAllDocuments(readFileSync("deploy/agent-daemonset.yaml", "utf8")).map((each) => each.toJS());
  const [, account, script, { spec, metadata }] = parts;
  const { spec: agentPod, metadata: agentMetadata } = spec.template;
  const [join] = agentPod.initContainers;
  const [agent] = agentPod.containers;
  type Mount = { name: string; mountPath: string; readOnly?: boolean };
  const volumes = Object.fromEntries(agentPod.volumes.map(({ name, ...rest }: { name: string }) => [name, rest]));
  const mountOf = (container: { volumeMounts: Mount[] }, name: string) =>
    container.volumeMounts.find((each) => each.name === name);

  it("is one DaemonSet with its namespace, its account and its script", () => {
    expect(parts.map(({ kind }) => kind)).toEqual(["Namespace", "ServiceAccount", "ConfigMap", "DaemonSet"]);
    for (const part of parts.slice(1)) expect(part.metadata.namespace).toBe(parts[0].metadata.name);
    expect(agentPod.serviceAccountName).toBe(account.metadata.name);
    expect(volumes["join"].configMap.name).toBe(script.metadata.name);
    expect(agentMetadata.labels).toEqual(spec.selector.matchLabels);
    expect(metadata.labels).toEqual(spec.selector.matchLabels);
    expect(spec.updateStrategy.rollingUpdate).toEqual({ maxSurge: 0, maxUnavailable: 1 });
  });

  it("mounts each volume, and gives the login to the join alone", () => {
    const used = [join, agent].flatMap(({ volumeMounts }) => volumeMounts.map(({ name }: Mount) => name));
    expect([...new Set(used)].sort()).toEqual(Object.keys(volumes).sort());
    expect(agentPod.automountServiceAccountToken).toBe(false);
    expect(mountOf(agent, "login")).toBeUndefined();
    const [{ serviceAccountToken }] = volumes["login"].projected.sources;
    expect(serviceAccountToken).toMatchObject({ audience: "sallyport", expirationSeconds: 600 });
    expect(mountOf(join, "state")?.readOnly).toBe(true);
    expect(mountOf(agent, "config")?.readOnly).toBe(true);
    expect(volumes["config"].emptyDir.medium).toBe("Memory");
    for (const { securityContext } of [join, agent])
      expect(securityContext).toMatchObject({
        allowPrivilegeEscalation: false,
        readOnlyRootFilesystem: true,
        capabilities: { drop: ["ALL"] },
      });
  });

  it("has the paths of the agent's defaults, and the state and plugins under the same path as on the node", () => {
    for (const name of ["state", "plugins"]) expect(mountOf(agent, name)?.mountPath).toBe(volumes[name].hostPath.path);
    const text = script.data["join.sh"];
    for (const name of ["config", "state", "login"]) expect(text).toContain(`:-${mountOf(join, name)?.mountPath}`);
    expect(readFileSync("agent/Containerfile", "utf8")).toContain(`${mountOf(agent, "config")?.mountPath}/agent.json`);
    const { version } = JSON.parse(readFileSync("package.json", "utf8"));
    expect(agent.image).toBe(`sallyport-agent:${version}`);
  });
});
