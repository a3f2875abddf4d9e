/**
 * `npm run deploy:first`: takes a Cloudflare account from nothing to a checked deployment (docs/operate/first-deployment.md).
 * It can be run again after any failure, and continues.
 */
import { rmSync } from "node:fs";
import { join, resolve } from "node:path";
import { InvalidUsage } from "../packages/cli/src/command.ts";
import { ask, askSecret } from "../packages/cli/src/prompt.ts";
import { useProxies } from "../packages/cli/src/proxies.ts";
import { costReport } from "./cost-report.ts";
import { CloudflareError } from "./deploy/cloudflare-api.ts";
import { Deployment } from "./deploy/deployment.ts";
import { deployOptions, deployUsage } from "./deploy/options.ts";
import { labelOf } from "./deploy/resources.ts";
import { tokenPath } from "./deploy/secrets.ts";
import { DeploymentState } from "./deploy/state.ts";
import { WranglerError } from "./deploy/wrangler.ts";
import { Refusal } from "./settings.ts";

const LOCATIONS = ["weur", "eeur", "apac", "oc", "wnam", "enam"] as const;
const JURISDICTIONS = ["eu", "us", "fedramp"] as const;

const say = (line: string): void => console.log(`- ${line}`);

useProxies(process.env);
try {
  process.exitCode = await main(process.argv.slice(2));
} catch (failure) {
  const isKnown = failure instanceof Refusal || failure instanceof CloudflareError || failure instanceof WranglerError;
  const isUsage = failure instanceof TypeError || failure instanceof InvalidUsage;
  const message = failure instanceof Error ? failure.message : String(failure);
  console.error(isKnown || isUsage ? message : `Failed: ${message}`);
  process.exitCode = isUsage ? 2 : 1;
}

async function main(args: readonly string[]): Promise<number> {
  const values = deployOptions(args);
  if (values.help) {
    console.log(deployUsage());
    return 0;
  }
  const { name = "sallyport" } = values;
  if (!/^[a-z](?:[a-z0-9-]{0,28}[a-z0-9])?$/.test(name))
    throw new TypeError("--name: must have at most 30 letters a-z, digits and hyphens, and begin with a letter");
  const place = {
    ...(values.location !== undefined && { location: oneOf("location", values.location, LOCATIONS) }),
    ...(values.jurisdiction !== undefined && {
      jurisdiction: oneOf("jurisdiction", values.jurisdiction, JURISDICTIONS),
    }),
  };
  if (place.location && place.jurisdiction) throw new TypeError("--location: has no effect with --jurisdiction");
  if (values.domain !== undefined && !/^(?=.{4,253}$)[a-z0-9-]+(?:\.[a-z0-9-]+)+$/.test(values.domain))
    throw new TypeError("--domain: must be a host name such as sallyport.example.com");
  if (values.address !== undefined && !/^https?:\/\/[^/]+$/.test(values.address))
    throw new TypeError("--address: must be https://HOST without a path");
  const account = process.env["CLOUDFLARE_ACCOUNT_ID"] || (await ask("CLOUDFLARE_ACCOUNT_ID: "));
  if (!/^[0-9a-f]{32}$/.test(account)) throw new TypeError("CLOUDFLARE_ACCOUNT_ID: must be 32 hexadecimal digits");
  const token = process.env["CLOUDFLARE_API_TOKEN"] || (await askSecret("CLOUDFLARE_API_TOKEN: "));
  if (!/^[\x21-\x7e]{20,}$/.test(token)) throw new TypeError("CLOUDFLARE_API_TOKEN: must be one word");

  const root = resolve(import.meta.dirname, "..");
  // npm runs this in the checkout, wherever it was called.
  const called = process.env["INIT_CWD"] ?? "";
  const dir = values.dir === undefined ? join(root, ".deployments", name) : resolve(called, values.dir);
  const isDry = values["dry-run"] === true;
  const state = DeploymentState.open(dir, { account, name, place, domain: values.domain }, isDry);
  const chosen = {
    dir,
    name,
    root,
    address: values.address,
    withAudit: values.audit === true,
    inSecretsStore: values["secrets-store"] === true,
  };
  const credentials = { token, account, base: process.env["CLOUDFLARE_API_BASE_URL"] };
  const deployment = new Deployment(chosen, credentials, state, say);
  if (values.destroy) return destroy(deployment, state, { name, isDry, isSure: values.yes === true });
  if (isDry) {
    await deployment.plan();
    return 0;
  }
  if (values["replace-worker"]) await deployment.replaceWorker();
  if (values.upgrade) state.reopen("migrated", "deployed", "checked");
  return finish(deployment, state, dir);
}

async function finish(deployment: Deployment, state: DeploymentState, dir: string): Promise<number> {
  const { address, token, findings } = await deployment.run();
  for (const { status, check, message, action } of findings) {
    console.log(`  ${status.toUpperCase().padEnd(8)} ${check}: ${message}`);
    if (action !== "") console.log(`           -> ${action}`);
  }
  if (findings.some(({ status }) => status === "problem")) {
    console.error(`The check found problems. Repair them, and run this again; the root token is in ${tokenPath(dir)}.`);
    return 1;
  }
  console.log(`\nAddress:     ${address}`);
  if (token !== null) console.log(`Root token:  ${token}\n             (shown once: put it into a safe)`);
  console.log(`Keys:        ${join(dir, "secrets.env")}: move this file to a safe. Without it no data can be read.`);
  console.log(`\nThe estimated bill with few callers (npm run cost, docs/operate/cost.md):\n`);
  const report = costReport([]);
  // Up to the total: prices and sources are in the command's own output.
  for (const line of report.slice(0, report.findIndex((each) => each.startsWith("total")) + 1)) console.log(line);
  if (findings.length > 0) state.finish("checked");
  rmSync(tokenPath(dir), { force: true });
  return 0;
}

async function destroy(
  deployment: Deployment,
  state: DeploymentState,
  { name, isDry, isSure }: { readonly name: string; readonly isDry: boolean; readonly isSure: boolean },
): Promise<number> {
  if (state.resources.length === 0) {
    console.log("Nothing is recorded: there is nothing to delete.");
    return 0;
  }
  for (const each of state.resources)
    say(`${isDry ? "would delete" : "will delete"} the ${labelOf(each.kind)} ${each.name}`);
  if (isDry) return 0;
  if (!isSure && (await ask(`All data of the deployment is lost. Type its name, ${name}: `)) !== name) {
    console.error("Nothing was deleted.");
    return 1;
  }
  const failures = await deployment.destroy();
  for (const failure of failures) console.error(failure);
  return failures.length > 0 ? 1 : 0;
}

function oneOf<const Words extends readonly string[]>(name: string, value: string, words: Words): Words[number] {
  const found = words.find((word) => word === value);
  if (found === undefined) throw new TypeError(`--${name}: must be one of ${words.join(", ")}`);
  return found;
}
