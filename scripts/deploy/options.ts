import { parseArgs } from "node:util";

/** The options of `npm run deploy:first` and `sallyport deploy`. Imports nothing of this repository: both programs load it. */

interface Option {
  /** The value's name in the usage text; undefined for a flag. */
  readonly value?: string;
  readonly help: string;
}

export const DEPLOY_OPTIONS = {
  name: { value: "NAME", help: "the Worker's name (default sallyport)" },
  domain: { value: "HOST", help: "a custom domain of a zone in the account (default: below workers.dev)" },
  location: { value: "PLACE", help: "near most writers: weur, eeur, apac, oc, wnam, enam" },
  jurisdiction: { value: "PLACE", help: "keeps all data in eu, us or fedramp" },
  "secrets-store": { help: "keeps MASTER_KEY in the account's Secrets Store instead of the Worker" },
  audit: { help: "keeps the whole audit log in a bucket" },
  address: { value: "URL", help: "reaches the service there instead of at its own address" },
  dir: { value: "DIR", help: "the record of the deployment (default .deployments/NAME of the checkout)" },
  "dry-run": { help: "says what would be done, and changes nothing" },
  upgrade: { help: "migrates and deploys again, with the configuration of this checkout" },
  "replace-worker": { help: "deletes a Worker whose first token was lost, and deploys it again" },
  destroy: { help: "deletes what the record names" },
  yes: { help: "answers the question of --destroy" },
} as const satisfies Record<string, Option>;

type Names = keyof typeof DEPLOY_OPTIONS;
type Values = { readonly [Name in Names]?: (typeof DEPLOY_OPTIONS)[Name] extends { value: string } ? string : boolean };

export const DEPLOY_ENVIRONMENT = "Environment: CLOUDFLARE_API_TOKEN, CLOUDFLARE_ACCOUNT_ID; asked for at a terminal.";

/** @throws TypeError for an unknown option, or one without its value */
export function deployOptions(args: readonly string[]): Values & { readonly help?: boolean } {
  const options = Object.fromEntries(
    Object.entries<Option>({ ...DEPLOY_OPTIONS, help: { help: "" } }).map(([name, { value }]) => {
      const type: "string" | "boolean" = value === undefined ? "boolean" : "string";
      return [name, { type }];
    }),
  );
  return parseArgs({ args: [...args], options }).values as Values & { readonly help?: boolean };
}

export function deployUsage(): string {
  const lines = Object.entries<Option>(DEPLOY_OPTIONS).map(
    ([name, { value, help }]) => `  ${`--${name}${value === undefined ? "" : ` ${value}`}`.padEnd(22)}${help}`,
  );
  return `npm run deploy:first -- [OPTIONS]\n\n${lines.join("\n")}\n\n${DEPLOY_ENVIRONMENT}`;
}
