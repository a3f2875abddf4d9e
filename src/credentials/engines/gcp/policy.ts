import * as z from "zod";
import { memo } from "../../../lib/memo.ts";

/** An IAM policy as read; other members of it and of its bindings stay as they are. */
const Policy = memo(() =>
  z.looseObject({
    version: z.number().optional(),
    etag: z.string().optional(),
    bindings: z
      .array(
        z.looseObject({
          role: z.string(),
          members: z.array(z.string()).default([]),
          condition: z.unknown().optional(),
        }),
      )
      .default([]),
  }),
);
type Policy = z.infer<ReturnType<typeof Policy>>;

export const parsedPolicy = (body: unknown): Policy | null => Policy().safeParse(body).data ?? null;

/** A role for a member, as one text: `roles/viewer user:me@example.com`. */
export const grantOf = (role: string, member: string): string => `${role} ${member}`;
const partsOf = (grant: string): { role: string; member: string } => {
  const at = grant.indexOf(" ");
  return { role: grant.slice(0, at), member: grant.slice(at + 1) };
};

/**
 * A policy with grants added and removed; null when it has them so already. Only bindings without a condition change: a
 * condition is the operator's.
 */
export function changedPolicy(policy: Policy, add: readonly string[], remove: readonly string[]): Policy | null {
  const bindings = policy.bindings.map((binding) => ({ ...binding, members: [...binding.members] }));
  const plain = (wanted: string) => bindings.find(({ role, condition }) => role === wanted && condition === undefined);
  let isChanged = false;
  for (const { role, member } of add.map(partsOf)) {
    const binding = plain(role);
    if (binding?.members.includes(member)) continue;
    isChanged = true;
    if (binding) binding.members.push(member);
    else bindings.push({ role, members: [member] });
  }
  for (const { role, member } of remove.map(partsOf)) {
    const binding = plain(role);
    const at = binding?.members.indexOf(member) ?? -1;
    if (!binding || at < 0) continue;
    isChanged = true;
    binding.members.splice(at, 1);
  }
  // Version 3 keeps conditions; a lower one would drop them.
  return isChanged ? { ...policy, version: 3, bindings: bindings.filter(({ members }) => members.length > 0) } : null;
}
