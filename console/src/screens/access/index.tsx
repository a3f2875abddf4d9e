import { href, place } from "../../app/router.ts";
import { Page } from "../../components/page.tsx";
import { Tabs } from "../../components/tabs.tsx";
import { ENTITIES, GROUPS, NAMESPACES, TOKEN_ROLES } from "./kinds.ts";
import { Limits } from "./limits.tsx";
import { MethodPage } from "./method.tsx";
import { Methods } from "./methods.tsx";
import { Policies } from "./policies.tsx";
import { RightsCheck } from "./rights-check.tsx";
import { SettingsList } from "./settings.tsx";
import { Tokens } from "./tokens.tsx";

export default function AccessScreen() {
  const [kind, path] = place.value.segments;
  if (kind === "method" && path !== undefined) return <MethodPage key={path} path={path} />;
  return (
    <Page
      title="Access"
      about="Policies say what a token may do on which path. Tokens come from auth methods, or are created by a token."
    >
      <Tabs
        label="Parts of access"
        tabs={[
          { name: "policies", label: "Policies", content: () => <Policies /> },
          { name: "tokens", label: "Tokens", content: () => <Tokens /> },
          { name: "token-roles", label: "Token roles", content: () => <SettingsList kind={TOKEN_ROLES} /> },
          { name: "methods", label: "Auth methods", content: () => <Methods /> },
          { name: "identities", label: "Identities", content: () => <Identities /> },
          { name: "limits", label: "Limits", content: () => <Limits /> },
          { name: "namespaces", label: "Namespaces", content: () => <SettingsList kind={NAMESPACES} /> },
          { name: "check", label: "What may a token do?", content: () => <RightsCheck /> },
        ]}
      />
    </Page>
  );
}

const Identities = () => (
  <>
    <div class="grid">
      <SettingsList kind={ENTITIES} />
      <SettingsList kind={GROUPS} />
    </div>
    <p class="muted small">
      Nodes have tokens of their own: <a href={href("nodes", [], { tab: "join-tokens" })}>join tokens</a> and{" "}
      <a href={href("nodes", [], { tab: "agents" })}>agents</a>.
    </p>
  </>
);
