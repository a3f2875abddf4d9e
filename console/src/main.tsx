/** Entry of the console. */
import { render } from "preact";
import { startIdleLock } from "./api/session.ts";
import { App } from "./app/app.tsx";
import { startVisits } from "./app/recent.ts";
import { startRouter } from "./app/router.ts";
import { startTheme } from "./app/theme.ts";
import { startClock } from "./lib/time.ts";

startTheme();
startRouter();
startClock();
startIdleLock();
startVisits();
const root = document.getElementById("app");
if (root) render(<App />, root);
