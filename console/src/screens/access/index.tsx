import { Page } from "../../components/page.tsx";
import { Tabs } from "../../components/tabs.tsx";
import { Methods } from "./methods.tsx";
import { Policies } from "./policies.tsx";
import { RightsCheck } from "./rights-check.tsx";
import { Tokens } from "./tokens.tsx";

export default function AccessScreen() {
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
          { name: "methods", label: "Auth methods", content: () => <Methods /> },
          { name: "check", label: "What may a token do?", content: () => <RightsCheck /> },
        ]}
      />
    </Page>
  );
}
