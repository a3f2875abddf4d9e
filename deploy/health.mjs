// Exits with 0 when the service of this container is healthy, also before its first token.
import { readFileSync } from "node:fs";
import { request as http } from "node:http";
import { request as https } from "node:https";
import { join } from "node:path";

// The service writes where it listens into its state: its settings may be in the file that CONFIG names.
const { STATE_DIR = "/var/lib/sallyport" } = process.env;
const { host, port, tls } = listening();
const asked = (tls ? https : http)(
  {
    host,
    port,
    path: "/v1/sys/health?uninitcode=200",
    timeout: 4000,
    // Its certificate names the public host, and not this loopback address.
    rejectUnauthorized: false,
  },
  (answer) => process.exit(answer.statusCode === 200 ? 0 : 1),
);
asked.on("timeout", () => process.exit(1));
asked.on("error", () => process.exit(1));
asked.end();

function listening() {
  try {
    return JSON.parse(readFileSync(join(STATE_DIR, "listen.json"), "utf8"));
  } catch {
    process.exit(1);
  }
}
