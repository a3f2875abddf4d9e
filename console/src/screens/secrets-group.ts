/** Screens about secrets, in one file for the browser: they share most of their parts. */
export { default as Credentials } from "./credentials/index.tsx";
export { default as Secrets } from "./secrets/index.tsx";
export { default as Receive } from "./secrets/receive.tsx";
export { default as Sync } from "./sync/index.tsx";
