import { isIP } from "node:net";
import * as z from "zod";
import type { Networking } from "../../contracts/sync-tasks.ts";
import { flag, stringList } from "../../platform/http/fields.ts";

/*
 * The networking fields that all destination types share
 * (https://developer.hashicorp.com/vault/api-docs/system/secrets-sync#create-update-an-aws-secrets-manager-destination).
 * Absent lists restrict nothing; their effect is in `providers/network-policy.ts`.
 */

const MAX_ENTRIES = 256;

/** Each distinct value once, in order. */
const distinct = <T>(values: readonly T[]): T[] => [...new Set(values)];

/** Networks of one family with their prefix, as Go's ParseCIDR takes them. */
const networks = (family: 4 | 6) =>
  stringList()
    .pipe(z.array(z.string()).max(MAX_ENTRIES))
    .transform((given, context) => {
      const wrong = given.find((text) => !isNetwork(text, family));
      if (wrong === undefined) return distinct(given);
      context.addIssue({ code: "custom", message: `invalid CIDR address: ${wrong.slice(0, 64)}` });
      return z.NEVER;
    })
    .nullish();

function isNetwork(text: string, family: 4 | 6): boolean {
  const [address = "", bits = ""] = text.split("/");
  const isPrefix = /^\d{1,3}$/.test(bits) && Number(bits) <= (family === 4 ? 32 : 128);
  return isIP(address) === family && isPrefix && text === `${address}/${bits}` && !text.includes("%");
}

const ports = () =>
  z
    .preprocess(
      (given) => (typeof given === "number" ? [given] : given),
      z.union([stringList(), z.array(z.union([z.string(), z.number()]))], "must be a list of ports"),
    )
    .transform((given, context) => {
      const numbers = given.map((port) => (/^\d{1,5}$/.test(String(port).trim()) ? Number(port) : 0));
      if (numbers.length <= MAX_ENTRIES && numbers.every((port) => port >= 1 && port <= 65_535)) {
        return distinct(numbers);
      }
      context.addIssue({ code: "custom", message: "invalid port: each must be a number from 1 to 65535" });
      return z.NEVER;
    })
    .nullish();

export const networkingFields = {
  allowed_ipv4_addresses: networks(4),
  allowed_ipv6_addresses: networks(6),
  allowed_ports: ports(),
  disable_strict_networking: z.preprocess((given) => (given === "" ? null : given), flag().nullish()),
};

const Fields = z.object(networkingFields);

/** The fields after a write: absent ones keep their value, null and empty ones end a restriction. */
export function networkingWith(before: Networking, given: z.infer<typeof Fields>): Networking {
  const merged = { ...before, ...Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined)) };
  const set = Object.keys(networkingFields)
    .map((name): [string, unknown] => [name, merged[name as keyof Networking]])
    .filter(([, value]) => (Array.isArray(value) ? value.length > 0 : value === true));
  return Object.fromEntries(set);
}
