/** A CSI driver as `npm start` runs it: it ends when its parent does, however the parent ended. */
import { answerPings } from "./heartbeat.ts";

answerPings();
process.once("disconnect", () => process.kill(process.pid, "SIGTERM"));

await import("../packages/csi-dir/src/main.ts");
