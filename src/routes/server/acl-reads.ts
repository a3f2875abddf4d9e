import { accessControl } from "../../rpc/stubs.ts";
import { blocking, nothing } from "./blocking.ts";
import { clusterJson } from "./respond.ts";
import type { AuthorisedCall } from "./route.ts";

/** Reads of tokens, policies, roles, auth methods and binding rules; all support blocking queries. */

const changedOf = (call: AuthorisedCall) => (since: number, waitMs: number) =>
  accessControl(call.env).clusterAclChanged(since, waitMs);

/** Answers a list. Its index grows with every change of these objects. */
export const listAcl = (call: AuthorisedCall, list: () => Promise<readonly unknown[]>): Promise<Response> =>
  blocking(
    call,
    async () => {
      // Before the list: a change in between is found by the next wait.
      const index = await accessControl(call.env).clusterAclIndex();
      const found = await list();
      return { index, respond: () => clusterJson(call, found, { index }) };
    },
    changedOf(call),
  );

/** Answers one object; `missing` is the message without it. */
export const readAcl = <Found extends { readonly ModifyIndex: number | null }>(
  call: AuthorisedCall,
  read: () => Promise<Found | null>,
  missing: string,
  shown: (found: Found) => unknown = (found) => found,
): Promise<Response> =>
  blocking(
    call,
    async () => {
      const found = await read();
      if (!found) return nothing(missing);
      // Without an index while its event is being published.
      const { ModifyIndex: index } = found;
      return { index: index ?? 0, respond: () => clusterJson(call, shown(found), { index }) };
    },
    changedOf(call),
  );
