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
  readonly body: (role: Fields) => Fields;
}

const text = (value: unknown) => (value === undefined ? undefined : JSON.stringify(value));

const RULES: Readonly<Record<CredentialEngine, EngineRules>> = {
  aws: {
    configs: ["config/root", "config/lease"],
    secret: "secret_key",
    roles: [["roles", "roles"]],
    keeps: "static-roles",
    body: (role) => role,
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
    // A roleset gets an account of its own here.
    body({ bindings, service_account_project: _, service_account_email: email, project, ...role }) {
      const own = project === undefined ? { service_account_email: email } : { project };
      const resources = Object.entries((bindings ?? {}) as Fields).map(([name, roles]) => [name, { roles }]);
      const given = resources.length > 0 && { bindings: JSON.stringify({ resource: Object.fromEntries(resources) }) };
      return { ...role, ...own, ...given };
    },
  },
};

/** Fields with a value; empty ones are defaults, which some roles may not name. */
const filled = (fields: Fields): Fields =>
  Object.fromEntries(
    Object.entries(fields).filter(
      ([, value]) =>
        value !== null &&
        value !== undefined &&
        value !== "" &&
        value !== 0 &&
        !(typeof value === "object" && Object.keys(value).length === 0),
    ),
  );

/** @throws ApiError when the mounts cannot be listed */
export async function importEngines(
  source: Api,
  target: Api,
  report: Report,
  choices: Choices,
  credentials: Credentials,
): Promise<void> {
  const here = new Map((await mountsOf(target)).others);
  for (const [path, type] of (await mountsOf(source)).others) {
    choices.found.add(path);
    const known = credentialEngine(type);
    if (known === undefined || (choices.mounts !== null && !choices.mounts.has(path))) continue;
    const rules = RULES[known];
    const shown = (name: string) => [source.namespace, path + name].filter((part) => part !== "").join("/");
    await attempt(report, "engine", shown(""), async () => {
      const found = here.get(path);
      if (found !== undefined && found !== type)
        return report.add("engine", shown(""), "differs", `is of type ${found} here`);
      if (found === undefined && !report.isPlan)
        await target.write(`sys/mounts/${encoded(path.replace(/\/$/, ""))}`, { type });
      const isConfigured = await importConfigs(source, target, path, rules, report, shown, credentials);
      await importRoles(source, target, path, rules, report, shown, isConfigured);
    });
  }
}

/** @returns whether the configuration is here, or would be */
async function importConfigs(
  source: Api,
  target: Api,
  path: string,
  { configs, secret }: EngineRules,
  report: Report,
  shown: (name: string) => string,
  credentials: Credentials,
): Promise<boolean> {
  for (const [at, config] of configs.entries()) {
    const fields = await source.fields(encoded(path + config));
    if (fields === null) continue;
    if ((await target.fields(encoded(path + config))) !== null) {
      report.add("engine", shown(config), "unchanged");
      continue;
    }
    const { next_rotation_date: _, ...open } = filled(fields);
    const given = at === 0 ? (credentials.get(shown("").replace(/\/$/, "")) ?? {}) : {};
    if (at === 0 && given[secret] === undefined && open["identity_token_audience"] === undefined) {
      const how = `give it in the file of --credentials, by the path of the mount, or write ${config}`;
      report.add("engine", shown(config), "incomplete", `${secret}: ${how}`);
      return false;
    }
    if (!report.isPlan) await target.write(encoded(path + config), { ...open, ...given });
    report.add("engine", shown(config), "written");
  }
  return true;
}

async function importRoles(
  source: Api,
  target: Api,
  path: string,
  { roles, keeps, body }: EngineRules,
  report: Report,
  shown: (name: string) => string,
  isConfigured: boolean,
): Promise<void> {
  for (const [list, one] of roles)
    for (const name of await source.list(encoded(path + list))) {
      const at = `${path}${one}/${name}`;
      const is = shown(`${one}/${name}`);
      await attempt(report, "role", is, async () => {
        if ((await target.fields(encoded(at))) !== null) return report.add("role", is, "unchanged");
        if (!isConfigured) return report.add("role", is, "incomplete", "the configuration of its engine is missing");
        const fields = (await source.fields(encoded(at))) ?? {};
        if (!report.isPlan) await target.write(encoded(at), filled(body(fields)));
        report.add("role", is, "written");
      });
    }
  if (keeps === null) return;
  for (const name of await source.list(encoded(path + keeps))) {
    const is = shown(`${keeps}/${name}`);
    const isHere = (await target.fields(encoded(`${path}${keeps}/${name}`))) !== null;
    const because = "it would replace credentials that the source still rotates: write it when it is deleted there";
    report.add("role", is, isHere ? "unchanged" : "incomplete", isHere ? "" : because);
  }
}
