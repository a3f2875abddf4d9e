import * as z from "zod";
import { badRequest, notFound, unwrap } from "../http/errors.ts";
import { caseless } from "../http/fields.ts";
import { clusterEmpty, clusterJson } from "../http/respond.ts";
import { type AuthorisedCall, cluster } from "../http/route.ts";
import { accessControl } from "../objects/stubs.ts";

/** Namespaces of areas C and D: flat, `default` always exists. */

const NamespaceBody = caseless(
  z.object({
    Name: z.string().optional(),
    Description: z.string().default(""),
    Meta: z.record(z.string(), z.string()).nullish(),
  }),
);

async function put(call: AuthorisedCall, body: z.output<typeof NamespaceBody>): Promise<Response> {
  const name = call.params["name"] ?? body.Name ?? "";
  if (body.Name !== undefined && body.Name !== name) throw badRequest("namespace name does not match request path");
  unwrap(await accessControl(call.env).putClusterNamespace(name, body.Description, body.Meta ?? null));
  const written = await find(call, name);
  return clusterEmpty({ index: written?.ModifyIndex ?? null });
}

const all = async (call: AuthorisedCall, prefix: string) => await accessControl(call.env).listClusterNamespaces(prefix);

const find = async (call: AuthorisedCall, name: string) => (await all(call, name)).find(({ Name }) => Name === name);

/** A namespace is visible to whoever holds any capability in it. */
const visible = (call: AuthorisedCall, name: string): boolean =>
  call.grant.cluster.management ||
  call.grant.cluster.namespaces.some((rule) => rule.name === name || rule.name.includes("*"));

export const clusterNamespaceRoutes = [
  cluster({
    verb: "GET",
    path: "/namespaces",
    rights: "any",
    handle: async (call) => {
      const found = (await all(call, call.query.get("prefix") ?? "")).filter(({ Name }) => visible(call, Name));
      return clusterJson(call, found, { index: Math.max(1, ...found.map(({ ModifyIndex }) => ModifyIndex ?? 1)) });
    },
  }),
  cluster({
    verb: "GET",
    path: "/namespace/:name",
    rights: (_rights, call) => visible(call, call.params["name"] ?? ""),
    handle: async (call) => {
      const found = await find(call, call.params["name"] ?? "");
      if (!found) throw notFound(`namespace ${JSON.stringify(call.params["name"])} not found`);
      return clusterJson(call, found, { index: found.ModifyIndex });
    },
  }),
  cluster({ verb: "POST", path: "/namespace", rights: "management", fresh: true, body: NamespaceBody, handle: put }),
  cluster({
    verb: "POST",
    path: "/namespace/:name",
    rights: "management",
    fresh: true,
    body: NamespaceBody,
    handle: put,
  }),
  cluster({
    verb: "DELETE",
    path: "/namespace/:name",
    rights: "management",
    fresh: true,
    handle: async (call) => {
      unwrap(await accessControl(call.env).deleteClusterNamespace(call.params["name"] ?? ""));
      return clusterEmpty();
    },
  }),
];
