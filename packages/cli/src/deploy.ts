import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { DEPLOY_ENVIRONMENT, DEPLOY_OPTIONS, deployOptions } from "../../../scripts/deploy/options.ts";
import { command, Failure, flag, InvalidUsage, type Options, optionFault, text } from "./command.ts";
import { Child } from "./run/child.ts";

const GRACE_MS = 10_000;
const SCRIPT = "deploy:first";

const options: Options = Object.fromEntries(
  Object.entries<{ value?: string; help: string }>(DEPLOY_OPTIONS).map(([name, { value, help }]) => [
    name,
    value === undefined ? flag(help) : text(value, help),
  ]),
);

export const deploy = command({
  words: ["deploy"],
  summary: "take a Cloudflare account from nothing to a checked deployment",
  about: `Creates the resources of a deployment, deploys and checks it, and continues after any failure when it is run again.
It is \`npm run ${SCRIPT}\` of the checkout in the working directory or above, which it needs: sources, migrations
and wrangler are not part of this program. docs/operate/first-deployment.md has each step.`,
  options,
  notes: DEPLOY_ENVIRONMENT,
  run: async ({ raw }, io) => {
    try {
      deployOptions(raw);
    } catch (failure) {
      throw new InvalidUsage(optionFault(failure));
    }
    const root = checkoutAbove(process.cwd());
    if (root === null)
      throw new Failure(
        "needs a checkout of Sallyport, and none is in the working directory or above: clone the repository, and run " +
          "this there (docs/operate/first-deployment.md)",
      );
    const child = new Child(["npm", "run", "--silent", "--prefix", root, SCRIPT, "--", ...raw], GRACE_MS);
    child.start(io.env, (line) => io.note(`sallyport deploy: ${line}`));
    return child.ended;
  },
});

/** The nearest folder whose package has the script; null without one. */
function checkoutAbove(dir: string): string | null {
  for (let at = dir; ; at = dirname(at)) {
    if (hasScript(join(at, "package.json"))) return at;
    if (at === dirname(at)) return null;
  }
}

function hasScript(path: string): boolean {
  if (!existsSync(path)) return false;
  try {
    const { name, scripts } = JSON.parse(readFileSync(path, "utf8")) as { name?: string; scripts?: object };
    return name === "sallyport" && SCRIPT in (scripts ?? {});
  } catch {
    return false;
  }
}
