import { expect, it } from "vitest";
import { type AuthorisedCall, inMount, secrets } from "./route.ts";

const handled = async () => new Response();

it("gives a handler the parameters of its path, and no others", () => {
  const routes = [
    secrets("GET /destinations/:type/:name", async ({ params }) => Response.json([params.type, params.name])),
    secrets("GET /data/:path+", async ({ params }) => new Response(params.path)),
    // @ts-expect-error: the path has no such parameter
    secrets("GET /data", async ({ params }) => new Response(params.path)),
  ];
  expect(routes).toHaveLength(3);
});

it("gives a handler of several paths those parameters that all of them have", () => {
  const path = "/lookup" as "/lookup" | "/lookup/:id";
  const ofOne = (_call: AuthorisedCall<"id">) => handled();
  const ofAll = (_call: AuthorisedCall<never, "id">) => handled();
  expect(secrets(`GET ${path}`, ofAll).path).toBe(path);
  // @ts-expect-error: one of the paths has no such parameter
  expect(secrets(`GET ${path}`, ofOne).path).toBe(path);
});

it("gives the mount to routes of mounts only", () => {
  const handle = async ({ mount }: { readonly mount: { readonly uuid: string } }) => new Response(mount.uuid);
  expect(inMount("GET /config", handle).path).toBe("/config");
  expect(inMount({ verb: "GET", path: "/config", handle }).path).toBe("/config");
  // @ts-expect-error: a route at a fixed path has no mount
  expect(secrets("GET /config", handle).path).toBe("/config");
});
