import type { RuleDefinition, RuleMount } from "../contracts/sync-rules.ts";
import { badRequest, denied, unwrap } from "../platform/http/errors.ts";
import { accessControl } from "../rpc/stubs.ts";
import { defineRule, RuleBody, staticPrefix } from "../sync/rules/rule.ts";
import { MAX_SELECTED, TOO_MANY } from "../sync/rules/selection.ts";
import type { AuthorisedCall } from "./server/route.ts";
import { destinationAt, keyOf, versionedMountAt } from "./sync-paths.ts";

/** Selectors of secrets, of rules and of one call that sets many associations. */

/** The fields of a selector, as those of a rule. */
export const Selector = RuleBody.pick({
  path_prefix: true,
  path_glob: true,
  exclude_glob: true,
  metadata_selector: true,
  match_all: true,
}).strict();
type Selector = (typeof Selector)["_output"];

/**
 * The mount of a selector: the caller may read every secret that it can match.
 * @param whose the selector in refusals
 * @throws RequestError 400, 403
 */
export async function selectedMount(
  call: AuthorisedCall,
  path: string,
  definition: RuleDefinition,
  whose: string,
): Promise<RuleMount> {
  const mount = await versionedMountAt(call, path);
  const { identity, namespace } = call.grant;
  const caller = { accessor: identity.accessor, namespace, needs: ["read"], given: {} } as const;
  const prefix = staticPrefix(definition);
  const below = definition.path_prefix !== "" && prefix === definition.path_prefix && !prefix.endsWith("/");
  const access = accessControl(call.env);
  // `app` stands for itself and for what is below `app/`.
  const checks = [
    access.mayAlso({ ...caller, path: `${mount.path}data/${prefix}${below ? "/" : ""}`, below: true }),
    ...(below ? [access.mayAlso({ ...caller, path: `${mount.path}data/${prefix}` })] : []),
  ];
  for (const checked of await Promise.all(checks)) {
    if (!checked.ok) {
      throw denied(
        checked.message?.replace(/^permission denied/, `permission denied to read all secrets that ${whose} can match`),
      );
    }
  }
  return { uuid: mount.uuid, accessor: mount.accessor, path: mount.path };
}

interface Given {
  readonly mount: string;
  readonly selector: Selector;
}

async function selectedBy(call: AuthorisedCall<"name" | "type">, { mount: path, selector }: Given) {
  const defined = defineRule("selector", { ...selector, mount: path });
  if (!defined.ok) {
    const { message } = defined;
    throw badRequest(message.startsWith("rule") ? message.replace(/^rule "selector"/, "selector:") : message);
  }
  const mount = await selectedMount(call, path, defined.value, "the selector");
  return { definition: defined.value, mount };
}

/** Sets associations of all secrets that match now. @returns their ids, and those that were skipped */
export async function setSelected(call: AuthorisedCall<"name" | "type">, given: Given) {
  const { definition, mount } = await selectedBy(call, given);
  return unwrap(await destinationAt(call, keyOf(call)).setSelected(mount, definition));
}

/** The effect of a set by selector, without one. */
export async function previewSelected(call: AuthorisedCall<"name" | "type">, given: Given, after: string) {
  const { definition, mount } = await selectedBy(call, given);
  const plan = unwrap(await destinationAt(call, keyOf(call)).previewRule("", mount, definition, after));
  if (plan.summary.matched > MAX_SELECTED) throw badRequest(TOO_MANY);
  return { summary: plan.summary, planned: plan.planned, next: plan.next ?? "" };
}
