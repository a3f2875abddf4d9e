import { type Api, encoded, type Fields } from "../api.ts";
import { attempt, type Choices } from "./importer.ts";
import type { Report } from "./report.ts";
import type { Credentials } from "./sync.ts";
import { type CredentialEngine, credentialEngine, mountsOf } from "./vault-source.ts";

/**
 * Engines that issue cloud credentials: mount, configuration and roles. No source shows the secrets of a configuration,
 * so they come from the operator's file; roles follow once the configuration is here.
 */

interface EngineRules {
  readonly configs: readonly string[];
  /** The secret of the first configuration, which identity tokens replace. */
  readonly secret: string;
  /** Folders of roles: where they are listed, and the path before a name. */
  readonly roles: readonly (readonly [list: string, one: string])[];
  /** Folder of roles that replace credentials of an account of others. */
  readonly keeps: string | null;
  /** The body that writes a role as it was read. */
  readonly body: (role: Fields) => Fields;
  /** Fields of a role that this service sets for itself. */
  readonly own: (role: Fields) => readonly string[];
}

/** Lists that are written as JSON text. */
const text = (value: unknown) => (value === undefined ? undefined : JSON.stringify(value));

const RULES: Readonly<Record<CredentialEngine, EngineRules>> = {
  aws: {
    configs: ["config/root", "config/lease"],
    secret: "secret_key",
    roles: [["roles", "roles"]],
    keeps: "static-roles",
    body: (role) => role,
    own: () => [],
  },
  azure: {
    configs: ["config"],
    secret: "client_secret",
    roles: [["roles", "roles"]],
    keeps: "static-roles",
    body: ({ azure_roles, azure_groups, ...role }) => ({
      ...role,
      azure_roles: text(azure_roles),
      azure_groups: text(azure_groups),
    }),
    own: () => [],
  },
  gcp: {
    configs: ["config"],
    secret: "credentials",
    roles: [
      ["rolesets", "roleset"],
      ["static-accounts", "static-account"],
      ["impersonated-accounts", "impersonated-account"],
    ],
    keeps: null,
    body({ bindings, ...role }) {
      const resources = Object.entries((bindings ?? {}) as Fields).map(([name, roles]) => [name, { roles }]);
      return {
        ...role,
        bindings: resources.length > 0 ? text({ resource: Object.fromEntries(resources) }) : undefined,
      };
    },
    // A roleset gets an account of its own here.
    own: ({ project }) => ["service_account_project", ...(project === undefined ? [] : ["service_account_email"])],
  },
};

/** Fields of a configuration that a server sets itself. */
const READ_ONLY: ReadonlySet<string> = new Set(["next_rotation_date", "root_password_expiration_date"]);

/** Fields with a value; empty ones are defaults, which some roles may not name. */
const filled = (fields: Fields): Fields =>
  Object.fromEntries(
    Object.entries(fields).filter(
      ([name, value]) =>
        !READ_ONLY.has(name) &&
        value !== null &&
        value !== undefined &&
        value !== "" &&
        value !== 0 &&
        !(typeof value === "object" && Object.keys(value).length === 0),
    ),
  );

/** Whether a configuration was never written: engines of Azure answer empty fields then. */
const isUnset = (filledFields: Fields): boolean => Object.values(filledFields).every((value) => value === false);

/** @throws ApiError when the mounts cannot be listed */
export async function importEngines(
  source: Api,
  target: Api,
  report: Report,
  choices: Choices,
  credentials: Credentials,
): Promise<void> {
  const here = new Map((await mountsOf(target)).others.map((mount) => [mount.path, mount]));
  for (const { path, type, description, ttls } of (await mountsOf(source)).others) {
    choices.found.add(path);
    const known = credentialEngine(type);
    if (known === undefined || (choices.mounts !== null && !choices.mounts.has(path))) continue;
    const mount: EngineMount = {
      rules: RULES[known],
      at: (name) => encoded(path + name),
      shown: (name) => [source.namespace, path + name].filter((part) => part !== "").join("/"),
    };
    await attempt(report, "engine", mount.shown(""), async () => {
      const found = here.get(path);
      if (found !== undefined && found.type !== type)
        return report.add("engine", mount.shown(""), "differs", `is of type ${found.type} here`);
      if (found === undefined && !report.isPlan)
        await target.write(`sys/mounts/${encoded(path.replace(/\/$/, ""))}`, { type, description, config: ttls });
      report.add("mount", mount.shown(""), found === undefined ? "written" : "unchanged");
      const isConfigured = await importConfigs(source, target, report, mount, credentials);
      await importRoles(source, target, report, mount, isConfigured);
    });
  }
}

interface EngineMount {
  readonly rules: EngineRules;
  readonly at: (name: string) => string;
  readonly shown: (name: string) => string;
}

/** Text that is equal for equal fields: servers order members and lists as they please. */
const canonical = (value: unknown): string =>
  JSON.stringify(value, (_name, each) => {
    if (Array.isArray(each)) return each.toSorted((a, b) => (canonical(a) < canonical(b) ? -1 : 1));
    if (each === null || typeof each !== "object") return each;
    return Object.fromEntries(Object.entries(each).toSorted(([a], [b]) => (a < b ? -1 : 1)));
  });

/** Reports fields that are here, without a change of them. */
function compare(report: Report, kind: "engine" | "role", name: string, wanted: Fields, found: Fields): void {
  const other = Object.keys(wanted).filter((field) => canonical(wanted[field]) !== canonical(found[field]));
  if (other.length === 0) report.add(kind, name, "unchanged");
  else report.add(kind, name, "differs", `has other values here: ${other.join(", ")}`);
}

/** @returns whether the configuration is here, or would be */
async function importConfigs(
  source: Api,
  target: Api,
  report: Report,
  { rules: { configs, secret }, at, shown }: EngineMount,
  credentials: Credentials,
): Promise<boolean> {
  for (const [index, config] of configs.entries()) {
    const open = filled((await source.fields(at(config))) ?? {});
    if (isUnset(open)) continue;
    const found = filled((await target.fields(at(config))) ?? {});
    if (!isUnset(found)) {
      compare(report, "engine", shown(config), open, found);
      continue;
    }
    const given = index === 0 ? (credentials.get(shown("").replace(/\/$/, "")) ?? {}) : {};
    if (index === 0 && given[secret] === undefined && open["identity_token_audience"] === undefined) {
      const how = `give it in the file of --credentials, by the path of the mount, or write ${config}`;
      report.add("engine", shown(config), "incomplete", `${secret}: ${how}`);
      return false;
    }
    if (!report.isPlan) await target.write(at(config), { ...open, ...given });
    report.add("engine", shown(config), "written");
  }
  return true;
}

async function importRoles(
  source: Api,
  target: Api,
  report: Report,
  { rules: { roles, keeps, body, own }, at, shown }: EngineMount,
  isConfigured: boolean,
): Promise<void> {
  const fieldsOf = async (server: Api, path: string): Promise<Fields | null> => {
    const fields = await server.fields(path);
    if (fields === null) return null;
    const ours = own(fields);
    return filled(Object.fromEntries(Object.entries(fields).filter(([name]) => !ours.includes(name))));
  };
  for (const [list, one] of roles)
    for (const name of await source.list(at(list))) {
      const path = at(`${one}/${name}`);
      const is = shown(`${one}/${name}`);
      await attempt(report, "role", is, async () => {
        const wanted = (await fieldsOf(source, path)) ?? {};
        const found = await fieldsOf(target, path);
        if (found !== null) return compare(report, "role", is, wanted, found);
        if (!isConfigured) return report.add("role", is, "incomplete", "the configuration of its engine is missing");
        if (!report.isPlan) await target.write(path, filled(body(wanted)));
        report.add("role", is, "written");
      });
    }
  if (keeps === null) return;
  for (const name of await source.list(at(keeps))) {
    const is = shown(`${keeps}/${name}`);
    const isHere = (await target.fields(at(`${keeps}/${name}`))) !== null;
    const because = "it would replace credentials that the source still rotates: write it when it is deleted there";
    report.add("role", is, isHere ? "unchanged" : "incomplete", isHere ? "" : because);
  }
}
