/** Screens about the deployment, in one file for the browser. */
export { default as Access } from "./access/index.tsx";
export { default as Audit } from "./audit/index.tsx";
