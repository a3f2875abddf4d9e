/** A CSI driver of `npm start`. It exits with its parent, for any end of the parent. */
import { answerPings } from "./heartbeat.ts";

answerPings();
process.once("disconnect", () => process.kill(process.pid, "SIGTERM"));

await import("../packages/csi-dir/src/main.ts");
