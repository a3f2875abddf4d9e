import { Api } from "./api.ts";
import { command, InvalidUsage, JSON_OPTION, text } from "./command.ts";
import { ENVIRONMENT, serviceOf } from "./environment.ts";

/** A word of a shell. */
const quoted = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`;

const CHECK_MS = 10_000;

/** Whether the deployment serves the agent's package: one that is built from a checkout may not. */
async function servesAgent(address: URL): Promise<boolean> {
  const url = new URL("/install/agent", address);
  const init = { method: "HEAD", signal: AbortSignal.timeout(CHECK_MS) };
  return fetch(url, init).then(
    ({ ok }) => ok,
    () => false,
  );
}

export const agentJoin = command({
  words: ["agent", "join"],
  summary: "create a join token, and print the line that starts a node's agent",
  about: `Creates a join token for one node, and prints a line for that machine: it writes the configuration and
the token, and starts the installed agent. If the deployment serves the agent's package, it prints a
line that installs the agent as well. The token needs \`node { policy = "write" }\`.`,
  options: {
    pool: text("NAME", 'the node pool (default "default")'),
    name: text("NAME", "the only name that may join with the token (default: any)"),
    ttl: text("TIME", "how long the token can be used, such as 10m; at most 1h (default 1h)"),
    service: text("URL", "the address that the node uses (default: the address of this command)"),
    ...JSON_OPTION,
  },
  notes: ENVIRONMENT,
  run: async ({ values }, io) => {
    const server = serviceOf(io.env);
    const service = values.service?.replace(/\/$/, "") ?? server.address.href.replace(/\/$/, "");
    if (!URL.canParse(service)) throw new InvalidUsage("--service: must be a URL");
    const pool = values.pool ?? "default";
    const wanted = {
      NodePool: pool,
      ...(values.name && { Name: values.name }),
      ...(values.ttl && { TTL: values.ttl }),
    };
    // Repeating the request would make a second token.
    const { text: answer } = await new Api(server, 0).call("POST", "agent/tokens", { body: JSON.stringify(wanted) });
    const { Token, ExpirationTime, AccessorID } = JSON.parse(answer);
    const config = {
      service,
      ...(values.name && { name: values.name }),
      ...(pool !== "default" && { pool }),
      joinTokenFile: "/etc/sallyport-agent/join-token",
    };
    const configured = [
      "sudo install -d /etc/sallyport-agent",
      `printf '%s' ${quoted(JSON.stringify(config))} | sudo install -m 644 /dev/stdin /etc/sallyport-agent/agent.json`,
    ];
    // Never an argument of a program, which other users and the log of sudo could show.
    const tokenTo = (options: string) =>
      `printf '%s' ${quoted(Token)} | sudo install -m 600 ${options}/dev/stdin /etc/sallyport-agent/join-token`;
    const line = [...configured, tokenTo("-o sallyport-agent "), "sudo systemctl enable --now sallyport-agent"].join(
      " && ",
    );
    // The script keeps a configuration and a token that are there, and gives them to the user that it creates.
    const script = `curl -fsS ${quoted(`${service}/install/agent`)} | sudo env SALLYPORT_ADDR=${quoted(service)} sh`;
    const install = (await servesAgent(server.address)) ? [...configured, tokenTo(""), script].join(" && ") : null;
    if (values.json) {
      io.out(JSON.stringify({ token: Token, accessor: AccessorID, expires: ExpirationTime, line, install }, null, 2));
      return 0;
    }
    io.note(`Valid until ${ExpirationTime}, for one node.`);
    if (install !== null) {
      io.note("Run this on the node to install the agent, and to start it:");
      io.out(install);
    }
    io.note("Run this on the node, where the agent is installed:");
    io.out(line);
    return 0;
  },
});
