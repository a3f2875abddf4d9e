import { homeOf } from "../credentials/assertion.ts";
import { kindsOf, prefixOf, type RoleKind } from "../credentials/engines/description.ts";
import type { EngineType, KeptLogin } from "../credentials/engines/engine-type.ts";
import { engineType } from "../credentials/engines/index.ts";
import { performRead, performRemoval, unfinished } from "../credentials/runner/job-worker.ts";
import { notFound, refusalError, unwrap } from "../platform/http/errors.ts";
import { dryRunRoute } from "./engine-dry-run.ts";
import { issue, issueBody, issueQuery, MetadataQuery } from "./engine-issue.ts";
import { ended, engine, mountType, OTHER_MS, REQUEST_MS } from "./engine-jobs.ts";
import { envelope, keyList, noContent } from "./server/respond.ts";
import { inMount, type MountCall, type SecretsRoute } from "./server/route.ts";
import { writeRights } from "./server/write-rights.ts";

/** Routes of a mount of an engine, relative to it. The type of the engine has their paths, bodies and answers. */

/** A rotation answers once it is durable; verifying the new secret may take minutes. */
const ROTATION_MS = 25_000;

/** A role's name as stored. An invalid name is an unknown path. @param prefix the beginning of names of its kind */
function roleName(call: MountCall<"name">, prefix: string): string {
  const name = engineType(call.mount.type).roles.nameOf(call.params.name);
  if (name === null) throw notFound("unsupported path");
  return prefix + name;
}

/** The routes of the configuration: itself, and its further documents. */
const configRoutes = ({ config, description: { paths, keepsConfig } }: EngineType): SecretsRoute[] => [
  inMount({
    verb: "GET",
    path: paths.config,
    handle: async (call) =>
      envelope(call, { data: unwrap(await engine(call).config(call.mount.type)), mountType: mountType(call) }),
  }),
  inMount({
    verb: "POST",
    path: paths.config,
    fresh: true,
    ...(!config.alwaysUpdates && ({ creates: true } as const)),
    body: config.body,
    handle: async (call, body) => {
      const { env, mount, request } = call;
      const home = body["identity_token_audience"] ? await homeOf(env, mount, request.url) : null;
      const held = config.alwaysUpdates ? null : writeRights(call);
      unwrap(await engine(call).setConfig(body, call.dialect, home, mount.type, null, held));
      return noContent();
    },
  }),
  ...(keepsConfig
    ? []
    : [
        inMount({
          verb: "DELETE",
          path: paths.config,
          fresh: true,
          handle: async (call) => {
            unwrap(await engine(call).deleteConfig());
            return noContent();
          },
        }),
      ]),
  ...Object.entries(config.documents ?? {}).flatMap(([path, { body }]) => [
    inMount({
      verb: "GET",
      path,
      handle: async (call) =>
        envelope(call, { data: unwrap(await engine(call).config(call.mount.type, path)), mountType: mountType(call) }),
    }),
    inMount({
      verb: "POST",
      path,
      fresh: true,
      body,
      handle: async (call, given) => {
        unwrap(await engine(call).setConfig(given, call.dialect, null, call.mount.type, path));
        return noContent();
      },
    }),
  ]),
];

const rotateRoute = (path: string): SecretsRoute =>
  inMount({
    verb: "POST",
    path,
    fresh: true,
    handle: async (call) => {
      const end = await ended(call, unwrap(await engine(call).rotateRoot(call.mount.type)), ROTATION_MS);
      const warnings = end?.warnings ?? ["the new secret is made and comes into use as soon as it works everywhere"];
      const data = end?.data;
      return warnings.length === 0 && !data
        ? noContent()
        : envelope(call, { data, warnings, mountType: mountType(call) });
    },
  });

const roleRoutes = ({ roles, description }: EngineType, kind: RoleKind): SecretsRoute[] => {
  const { updatesRoles, deletesAnyRole } = description;
  const prefix = prefixOf(description, kind);
  const { lists = [kind.path], rotate = [] } = kind;
  const one = `${kind.path}/:name` as "/:name";
  return [
    ...lists.map((path) =>
      inMount({
        verb: "LIST",
        path,
        handle: async (call) => {
          const keys: string[] = [];
          for (let page = await engine(call).roleNames("", prefix); page.length > 0; ) {
            keys.push(...page);
            page = await engine(call).roleNames(keys.at(-1) ?? "", prefix);
          }
          return keyList(call, keys, {}, mountType(call));
        },
      }),
    ),
    ...rotate.map((path) =>
      inMount({
        verb: "POST",
        path: path as "/:name",
        fresh: true,
        handle: async (call) => {
          const at = path.slice(1);
          const started = unwrap(await engine(call).rotateRole(roleName(call, prefix), at, call.dialect));
          return written(call, await ended(call, started, REQUEST_MS));
        },
      }),
    ),
    inMount({
      verb: "GET",
      path: one,
      handle: async (call) => {
        const role = unwrap(await engine(call).role(roleName(call, prefix)));
        return envelope(call, { data: roles.translate(call.dialect, role), mountType: mountType(call) });
      },
    }),
    ...[one, ...(kind.writes ?? [])].map((path) =>
      inMount({
        verb: "POST",
        path: path as "/:name",
        fresh: true,
        ...(!updatesRoles && ({ creates: true } as const)),
        body: roles.kinds?.[path === one ? kind.path : path] ?? roles.body,
        handle: async (call, body) => {
          const name = roleName(call, prefix);
          const { dialect, mount } = call;
          const held = updatesRoles ? null : writeRights(call);
          const started = unwrap(await engine(call).writeRole(name, body, dialect, mount.type, mount.config, held));
          const answer = written(call, await ended(call, started, REQUEST_MS));
          if (!kind.answersWrites) return answer;
          const role = unwrap(await engine(call).role(name));
          return envelope(call, { data: roles.translate(call.dialect, role), mountType: mountType(call) });
        },
      }),
    ),
    inMount({
      verb: "DELETE",
      path: one,
      fresh: true,
      handle: async (call) => {
        const deleted = await engine(call).deleteRole(roleName(call, prefix));
        if (deletesAnyRole && !deleted.ok && deleted.reason === "missing") return noContent();
        const removal = unwrap(deleted);
        if (!removal) return noContent();
        const until = Date.now() + OTHER_MS;
        const end = await performRemoval(call.env, call.mount.uuid, removal, { end: until, verifyUntil: until });
        if (end?.ok && end.goesOnAt === null) return noContent();
        const because = end === null || end.ok ? "" : `: ${end.message}`;
        const warnings = [
          `the role is deleted; removing its ${kind.owns ?? "resources"} is tried again until it succeeds${because}`,
        ];
        return envelope(call, { warnings, mountType: mountType(call) });
      },
    }),
  ];
};

/** The answer to a write of a role. @param end null while the write goes on */
function written(call: MountCall, end: { readonly warnings: readonly string[] } | null): Response {
  if (end === null) throw refusalError(unfinished("the role"));
  const { warnings } = end;
  return warnings.length === 0 ? noContent() : envelope(call, { warnings, mountType: mountType(call) });
}

/** The routes of one path that issues credentials. @param prefix the beginning of names of the kind of its roles */
function issueRoutes(type: EngineType, path: string, prefix: string): SecretsRoute[] {
  const pattern = (path.includes("/:name") ? path : `${path}/:name`) as "/:name";
  const at = path.slice(1);
  const { request } = type.issue;
  return [
    inMount({
      verb: "GET",
      path: pattern,
      query: issueQuery(type),
      handle: (call) => {
        const { metadata: _, ...parameters } = call.asked;
        return issue(call, roleName(call, prefix), at, parameters);
      },
    }),
    ...(request
      ? [
          inMount({
            verb: "POST",
            path: pattern,
            fresh: true,
            query: MetadataQuery,
            body: issueBody(request),
            handle: (call, parameters) => issue(call, roleName(call, prefix), at, parameters),
          }),
        ]
      : []),
  ];
}

/** The route of a path that answers kept credentials. @param prefix the beginning of names of the kind of its roles */
const readRoute = (path: string, prefix: string): SecretsRoute =>
  inMount({
    verb: "GET",
    path: `${path}/:name` as "/:name",
    query: MetadataQuery,
    handle: async (call) => {
      const data = unwrap(await engine(call).keptCredentials(roleName(call, prefix)));
      // That of the role is the operator's.
      const metadata = { ...call.asked.metadata, ...(data["metadata"] as Record<string, string> | undefined) };
      return envelope(call, {
        data: { ...data, ...(Object.keys(metadata).length > 0 && { metadata }) },
        mountType: mountType(call),
      });
    },
  });

/** The route of a path that logs in with kept credentials. @param prefix the beginning of names of the kind of its roles */
const loginRoute = (type: EngineType, { body, step, data }: KeptLogin, path: string, prefix: string): SecretsRoute =>
  inMount({
    verb: "POST",
    path: path as "/:name",
    fresh: true,
    body,
    handle: async (call, asked) => {
      const kept = unwrap(await engine(call).keptCredentials(roleName(call, prefix)));
      const account = unwrap(await engine(call).account());
      const token = unwrap(await performRead(call.env, { type, account }, step(kept, asked), OTHER_MS));
      // The login takes time, and the right may have gone since.
      await call.recheck();
      return envelope(call, { data: data(token), mountType: mountType(call) });
    },
  });

/** The routes of mounts of a type. */
export function engineRoutes(type: EngineType): SecretsRoute[] {
  const { description } = type;
  const { rotate, dryRun } = description.paths;
  const login = type.roles.kept?.login;
  const kinds = kindsOf(description);
  return [
    ...configRoutes(type),
    ...(rotate === null ? [] : [rotateRoute(rotate)]),
    ...(dryRun !== undefined && type.dryRun ? [dryRunRoute(type.dryRun, dryRun)] : []),
    ...kinds.flatMap((kind) => roleRoutes(type, kind)),
    ...kinds.flatMap((kind) => (kind.reads ?? []).map((path) => readRoute(path, prefixOf(description, kind)))),
    ...kinds.flatMap((kind) =>
      login ? (kind.logins ?? []).map((path) => loginRoute(type, login, path, prefixOf(description, kind))) : [],
    ),
    ...kinds.flatMap((kind) => kind.issue.flatMap((path) => issueRoutes(type, path, prefixOf(description, kind)))),
  ];
}
