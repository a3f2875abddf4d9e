import * as z from "zod";
import type { Failure } from "../../../contracts/failure.ts";
import { memo } from "../../../lib/memo.ts";
import { failure } from "../../../providers/outcome.ts";
import { EACH_KEY, environmentNames } from "../defaults.ts";
import { type CallContext, doneBy, type KnownObject, type Put, remoteType } from "../destination-type.ts";
import { wordList } from "../fields.ts";
import { checkObject, intentOf } from "../object-rules.ts";
import { MARKER_TEXT } from "../variables.ts";
import {
  type Answer,
  type ApiFailure,
  type DeploymentEnvironment,
  type DeployProject,
  type DeployProjectConnection,
  deploymentEnvironments,
  deployProjectApi,
  type Variable,
  type VariableChange,
} from "./client.ts";
import { description } from "./description.ts";

/** All variables of a deployment have 64 KiB together, names included ("Environment variables", size limits). */
const maxValueBytes = 65_535;

/** Limit of retries after conflicts while another writer changes the same variable. */
const maxRounds = 3;

/** Page "Reserved environment variables". The provider refuses further names of the platform itself. */
const reservedNames = new Set([
  "AWS_SECRET_KEY",
  "AWS_EXECUTION_ENV",
  "AWS_LAMBDA_LOG_GROUP_NAME",
  "AWS_LAMBDA_LOG_STREAM_NAME",
  "AWS_LAMBDA_FUNCTION_NAME",
  "AWS_LAMBDA_FUNCTION_MEMORY_SIZE",
  "AWS_LAMBDA_FUNCTION_VERSION",
  "NOW_REGION",
  "TZ",
  "LAMBDA_TASK_ROOT",
  "LAMBDA_RUNTIME_DIR",
]);

const text = (rule: RegExp, message: string) =>
  z
    .union([z.string(), z.number()], message)
    .transform(String)
    .refine((given) => rule.test(given), message);

const environmentsRule = `must name one or more of ${deploymentEnvironments.join(", ")}`;

const environments = () =>
  wordList(environmentsRule)
    .refine(
      (given) => given.length > 0 && given.every((one) => deploymentEnvironments.some((known) => known === one)),
      environmentsRule,
    )
    .transform((given) => given as DeploymentEnvironment[]);

const connection = memo(() =>
  z
    .object({
      access_token: text(/^[\x21-\x7e]{1,512}$/, "must be 1 to 512 printable characters without spaces"),
      project_id: text(
        /^(?!\.{1,2}$)[\w.-]{1,100}$/,
        "must be the project's id or name: 1 to 100 letters, digits or characters of ._-",
      ),
      team_id: text(/^[\w-]{0,100}$/, "must be at most 100 letters, digits or characters of _-").optional(),
      deployment_environments: environments(),
    })
    .transform(({ team_id, ...rest }): DeployProjectConnection => (team_id ? { ...rest, team_id } : rest)),
);

/**
 * Environment variables of a Vercel project. One external object is one variable (a record with an id) for the
 * connection's deployment environments, all branches. Existing deployments keep their values.
 *
 * Names are unique per environment, so another record of the same name can cover some of our environments. Policy
 * `replace` removes our environments from such a record and leaves it the others. A record that covers our environments
 * only is adopted. Records for one branch are never changed.
 *
 * A record is ours when its id is recorded or its comment begins with our marker. Two destinations of one project that
 * share an environment therefore never push the same name.
 */
export const deployProject = remoteType(description, connection, {
  // The team is part of the target: without it a project id refers to another project.
  targets: ({ project_id: project, team_id: team = "", deployment_environments: environments }) =>
    environments.map((one) => JSON.stringify([team, project, one])),
  resolve: ({ deployment_environments: given, ...rest }) => ({
    ...rest,
    deployment_environments: deploymentEnvironments.filter((known) => given.includes(known)),
  }),
  defaults: EACH_KEY,
  naming: {
    ...environmentNames(256),
    refuse: (name) => (reservedNames.has(name) ? `${name} is reserved by the provider.` : null),
  },
  maxValueBytes,
  // The API's limits count per endpoint and minute and come with each answer; the documentation states none.
  pace: { atOnce: 2, burst: 30, perMinute: 120 },

  reading: {
    /** The provider shows the values of plain and encrypted variables. One of other environments would lose them. */
    async list(_cursor, details, context) {
      const found = await shownVariables(details, context);
      return found.ok ? { outcome: "ok", names: found.shown.map(({ key }) => key), next: null } : found.outcome;
    },
    async read(name, details, context) {
      const found = await shownVariables(details, context);
      if (!found.ok) return found.outcome;
      const variable = found.shown.find(({ key }) => key === name);
      if (!variable) return { outcome: "ok", content: null };
      const read = await deployProjectApi(details, context).readValue(variable.id, name);
      return read.ok ? { outcome: "ok", content: { value: read.value } } : read.outcome;
    },
  },

  async put(object, details, context) {
    const refused = checkObject(object, {
      name: /^[A-Za-z_][A-Za-z0-9_]{0,255}$/,
      rule: "be 1 to 256 letters, digits and underscores and not begin with a digit",
      maxBytes: maxValueBytes,
      limit: `the provider takes at most ${maxValueBytes} for all together`,
    });
    if (refused !== null) return refused;
    const api = deployProjectApi(details, context);
    // A comment has at most 500 characters.
    const comment = `${MARKER_TEXT} (push ${intentOf(object).slice(0, 32)})`;
    const wanted = { name: object.name, value: object.value, target: details.deployment_environments, comment };
    const known = readReference(object.reference);

    if (known !== null && object.updatePolicy === "replace") {
      const edited = await api.edit(known.id, object.name, changeOf(wanted, known.type));
      if (edited.ok && edited.variable.gitBranch === null) return done(edited.variable);
      // Deleted, in conflict with another record, or of another type: the list below decides.
      if (!edited.ok && !isNotFound(edited) && !isRejected(edited)) return edited.outcome;
    }

    let contended = failure("external", "contended", `${object.name} is being created and deleted by another caller.`);
    for (let round = 0; round < maxRounds; round++) {
      const listed = await api.list();
      if (!listed.ok) return listed.outcome;
      const { own, overlapping } = find(listed.variables, object.name, wanted.target, known?.id);

      if (object.updatePolicy === "if-not-exists" && (own ?? overlapping[0]) !== undefined) {
        const written = [own, ...overlapping].find((one) => one?.comment === comment);
        return written === undefined ? { outcome: "ok", left: true } : done(written);
      }
      if (object.updatePolicy === "owned-only" && [own, ...overlapping].some((one) => one && !isMarked(one))) {
        return notOwned(object.name);
      }

      const adopted = own ?? adoptable(overlapping, wanted.target);
      const others = overlapping.filter((one) => one !== adopted);
      const written = await write(api, wanted, adopted, others, object.updatePolicy === "replace");
      if (written.ok) return done(written.variable);
      if (isConflict(written)) {
        if (object.updatePolicy === "if-not-exists") return { outcome: "ok", left: true };
        // The record appeared after the list was read, or it is invisible to the token.
        contended = object.updatePolicy === "owned-only" ? notOwned(object.name) : written.outcome;
      } else if (!adopted || !isNotFound(written)) {
        return written.outcome;
      }
    }
    return contended;
  },

  async remove(object, details, context) {
    const api = deployProjectApi(details, context);
    const known = readReference(object.reference);
    // Includes the environments of the last push: the connection may have lost some since.
    const targets = [...new Set([...details.deployment_environments, ...(known?.target ?? [])])];
    const listed = await api.list();
    if (!listed.ok) return listed.outcome;
    const { own, overlapping } = find(listed.variables, object.name, targets, known?.id);

    for (const variable of new Set(own ? [own, ...overlapping] : overlapping)) {
      if (object.ownedOnly && !isMarked(variable)) continue;
      const taken = await takeAway(api, variable, targets);
      if (!taken.ok) return taken.outcome;
    }
    const mayHide = !own && listed.hidden > 0 && targets.includes("production");
    if (!mayHide || (known === null && overlapping.length > 0)) return { outcome: "ok" };
    if (known === null || object.ownedOnly) return hidden(object.name);
    const removed = await api.remove(known.id, object.name);
    return removed.ok || isNotFound(removed) ? { outcome: "ok" } : removed.outcome;
  },

  async inspect(object, details, context) {
    const listed = await deployProjectApi(details, context).list();
    if (!listed.ok) return listed.outcome;
    const targets = details.deployment_environments;
    const known = readReference(object.reference);
    const { own, overlapping } = find(listed.variables, object.name, targets, known?.id);
    const all = own && !overlapping.includes(own) ? [own, ...overlapping] : overlapping;
    if (all.length === 0) {
      if (listed.hidden > 0 && targets.includes("production")) return hidden(object.name);
      return { outcome: "ok", state: "absent", owned: null };
    }
    const owned = all.every(isMarked);
    if (known === null) return { outcome: "ok", state: "present", owned };
    const unchanged =
      all.length === 1 &&
      own?.key === object.name &&
      own.updatedAt === known.updatedAt &&
      own.gitBranch === null &&
      sameTargets(own.target, targets);
    return { outcome: "ok", state: unchanged ? "unchanged" : "changed", owned };
  },

  async probe(details, context) {
    const api = deployProjectApi(details, context);
    const project = await api.readProject();
    if (project.ok) return doneBy(await api.list());
    if (project.outcome.code !== "permission_denied") return project.outcome;
    // The status is the same for an invalid token and a missing permission; a read of the user's account distinguishes
    // them.
    const user = await api.readUser();
    return !user.ok && (user.error?.status === 401 || user.error?.status === 403)
      ? failure("client", "auth_failed", "The access token is not accepted.")
      : project.outcome;
  },
});

/** Variables with readable values that have exactly the connection's environments, and no other of their name there. */
async function shownVariables(details: DeployProjectConnection, context: CallContext) {
  const listed = await deployProjectApi(details, context).list();
  if (!listed.ok) return listed;
  const targets = details.deployment_environments;
  const shown = listed.variables.filter(
    (one) =>
      ["plain", "encrypted"].includes(one.type) &&
      one.gitBranch === null &&
      one.customEnvironmentIds.length === 0 &&
      sameTargets(one.target, targets) &&
      find(listed.variables, one.key, targets, undefined).overlapping.length === 1,
  );
  return { ok: true as const, shown };
}

type Wanted = Required<Pick<VariableChange, "value" | "target" | "comment">> & { name: string };

/** A change of a variable. A sensitive one accepts neither key nor type, not even unchanged. */
function changeOf({ name, value, target, comment }: Wanted, type: string, gitBranch: string | null = null) {
  const change: VariableChange = type === "sensitive" ? { value } : { key: name, value, type: "encrypted" };
  return { ...change, target, comment, ...(gitBranch === null ? {} : { gitBranch: null }) };
}

/** The recorded variable, and the variables of this name for all branches that cover one of `targets`. */
function find(variables: Variable[], name: string, targets: readonly string[], id: string | undefined) {
  return {
    own: variables.find((one) => one.id === id),
    overlapping: variables.filter(
      (one) => one.key === name && one.gitBranch === null && one.target.some((target) => targets.includes(target)),
    ),
  };
}

/** The record to write into: one with our marker, else one that covers our environments only. */
function adoptable(overlapping: Variable[], targets: readonly string[]): Variable | undefined {
  return (
    overlapping.find((one) => isMarked(one) && sameTargets(one.target, targets)) ??
    overlapping.find(isMarked) ??
    overlapping.find((one) => !hasMore(one, targets))
  );
}

/** Writes into `adopted`, or into a new record, after taking our environments from `others`. */
async function write(
  api: DeployProject,
  wanted: Wanted,
  adopted: Variable | undefined,
  others: Variable[],
  upsert: boolean,
): Promise<Answer<{ variable: Variable }>> {
  const change = (target: string[]) => {
    const { name: key, value, comment } = wanted;
    if (!adopted) return api.create({ key, value, type: "encrypted", target, comment }, { upsert });
    return api.edit(adopted.id, wanted.name, changeOf({ ...wanted, target }, adopted.type, adopted.gitBranch));
  };
  if (adopted && others.length > 0) {
    // The others lose their environments only after the provider has accepted the value.
    const tried = await change(adopted.target);
    if (!tried.ok) return tried;
  }
  for (const other of others) {
    const taken = await takeAway(api, other, wanted.target);
    if (!taken.ok) return taken;
  }
  const written = await change(wanted.target);
  if (!written.ok && written.outcome.outcome === "client" && !adopted) {
    // The write was refused, so the others get their environments back where possible.
    for (const other of others) await api.edit(other.id, other.key, { target: other.target });
  }
  return written;
}

/** Removes `targets` from a variable; deletes it when no other environment is left. */
async function takeAway(api: DeployProject, variable: Variable, targets: readonly string[]): Promise<Answer<object>> {
  const rest = variable.target.filter((target) => !targets.includes(target));
  const taken = hasMore(variable, targets)
    ? await api.edit(variable.id, variable.key, { target: rest })
    : await api.remove(variable.id, variable.key);
  return !taken.ok && isNotFound(taken) ? { ok: true } : taken;
}

const hasMore = ({ target, customEnvironmentIds }: Variable, targets: readonly string[]) =>
  customEnvironmentIds.length > 0 || target.some((one) => !targets.includes(one));

const sameTargets = (some: readonly string[], others: readonly string[]) =>
  some.length === others.length && some.every((one) => others.includes(one));

const isMarked = ({ comment }: Variable) => comment.startsWith(MARKER_TEXT);

const isNotFound = ({ error }: ApiFailure) => error?.status === 404;
const isConflict = ({ outcome }: ApiFailure) => outcome.code === "already_exists" || outcome.code === "conflict";
const isRejected = (refused: ApiFailure) => isConflict(refused) || refused.error?.status === 400;

const notOwned = (name: string): Failure =>
  failure("client", "not_owned", `The variable ${name} exists and was not made by this service.`);

const hidden = (name: string): Failure =>
  failure("client", "permission_denied", `${name} may be among the production variables that the token may not see.`);

const done = ({ id, updatedAt, type, target }: Variable): Put => ({
  outcome: "ok",
  reference: [id, updatedAt, type, target.join(",")].join(" "),
});

/** Reads the reference written by `done`; null when it is absent or unreadable. */
function readReference(reference: KnownObject["reference"]) {
  const [id, updatedAt, type, target] = reference?.split(" ") ?? [];
  if (!id || !type || target === undefined) return null;
  return { id, updatedAt: Number(updatedAt), type, target: target.split(",").filter((one) => one !== "") };
}
