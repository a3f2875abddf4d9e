/** Screens about the cluster and the deployment, in one file for the browser. */
export { default as Access } from "./access/index.tsx";
export { default as Audit } from "./audit/index.tsx";
export { default as Events } from "./events/index.tsx";
export { default as Guides } from "./guides/index.tsx";
export { default as Nodes } from "./nodes/index.tsx";
export { default as Notifications } from "./notifications/index.tsx";
export { default as Storage } from "./storage/index.tsx";
