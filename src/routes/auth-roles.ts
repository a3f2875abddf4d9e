import { withOlderNames } from "../auth/token-settings.ts";
import type { TokenSettings } from "../contracts/auth.ts";
import { authMountOf, deleteEntry, entryNames, foundEntry } from "./server/auth-call.ts";
import { envelope, keyList, noContent } from "./server/respond.ts";
import { type Call, secrets } from "./server/route.ts";

/** Routes that list, read and delete roles, for auth methods whose roles are entries of the kind `role`. */

export const ROLE = "role";

/** The role that a path names. */
export const roleNameOf = (call: Call): string => (call.params["name"] ?? "").toLowerCase();

const mountType = (call: Call): string => authMountOf(call).type;

export const roleRoutes = [
  secrets({
    verb: "LIST",
    path: "/role",
    fresh: true,
    handle: async (call) => keyList(call, await entryNames(call, ROLE), {}, mountType(call)),
  }),
  secrets({
    verb: "GET",
    path: "/role/:name",
    fresh: true,
    handle: async (call) => {
      const data = withOlderNames(await foundEntry<TokenSettings>(call, ROLE, roleNameOf(call)));
      return envelope(call, { data, mountType: mountType(call) });
    },
  }),
  secrets({
    verb: "DELETE",
    path: "/role/:name",
    fresh: true,
    handle: async (call) => {
      await deleteEntry(call, ROLE, roleNameOf(call));
      return noContent();
    },
  }),
];
