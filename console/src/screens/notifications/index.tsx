import { Page } from "../../components/page.tsx";
import { Tabs } from "../../components/tabs.tsx";
import { Active } from "./active.tsx";
import { Channels } from "./channels.tsx";
import { Rules } from "./rules.tsx";

export default function NotificationsScreen() {
  return (
    <Page title="Notifications" about="Rules watch conditions of the deployment, and send messages to channels.">
      <Tabs
        label="Parts of notifications"
        tabs={[
          { name: "active", label: "Active", content: () => <Active /> },
          { name: "rules", label: "Rules", content: () => <Rules /> },
          { name: "channels", label: "Channels", content: () => <Channels /> },
        ]}
      />
    </Page>
  );
}
