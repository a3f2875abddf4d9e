import { Api } from "../api.ts";
import { command, flag, JSON_OPTION, table } from "../command.ts";
import { ENVIRONMENT, serviceOf } from "../environment.ts";
import { tokenChecks } from "./checks.ts";
import { health, reach } from "./connection.ts";
import { deepChecks } from "./deep.ts";

const numbered = (count: number, name: string): string =>
  `${count === 0 ? "No" : count} ${name}${count < 2 ? "" : "s"}`;

export const doctor = command({
  words: ["doctor"],
  summary: "check a deployment, and say what to do",
  about: `Checks a deployment by reads of its public API: address, TLS, clock, seal, health, version, token, sync,
delivery, audit, snapshots, agents, CSI plugins, leases, rate limits, root secrets of engines. A check
whose right the token lacks is "unknown". With --deep it also writes: a mount, a destination, a policy, a
subscription, a node and a token with random names, which it removes again. That needs a root token.`,
  options: { deep: flag("let each part do real work, up to five minutes"), ...JSON_OPTION },
  notes: `${ENVIRONMENT}
Exit codes: 0 no problem, 1 a problem, 2 invalid usage.`,
  run: async ({ values }, io) => {
    const server = serviceOf(io.env);
    const { found, health: fields } = await reach(server);
    const api = new Api({ ...server, namespace: "" }, 1, { dialect: "Orch" });
    const isOpen = fields !== null && !fields["sealed"];
    const all = [
      ...found,
      ...(fields === null ? [] : health(fields)),
      // A sealed service refuses what follows.
      ...(isOpen ? await tokenChecks(api) : []),
      ...(isOpen && values.deep ? await deepChecks({ ...server, api }) : []),
    ];
    const problems = all.filter(({ status }) => status === "problem").length;
    if (values.json) io.out(JSON.stringify({ problems, findings: all }, null, 2));
    else {
      const rows = all.map(({ status, check, message }) => [status.toUpperCase(), check, message]);
      for (const [at, line] of table(rows).entries()) {
        io.out(line);
        const { action = "" } = all[at] ?? {};
        if (action !== "") io.out(`         -> ${action}`);
      }
      const warnings = all.filter(({ status }) => status === "warning").length;
      const counts = [numbered(problems, "problem"), ...(warnings === 0 ? [] : [numbered(warnings, "warning")])];
      io.out(`${counts.join(", ")}.`);
    }
    return problems === 0 ? 0 : 1;
  },
});
