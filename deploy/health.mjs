// Exits with 0 when the service of this container is healthy, also before its first token.
import { request as http } from "node:http";
import { request as https } from "node:https";

const { PORT = "8787", TLS_CERT } = process.env;
const asked = (TLS_CERT ? https : http)(
  {
    host: "127.0.0.1",
    port: PORT,
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
