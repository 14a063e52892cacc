import {
  ActionIcon,
  Alert,
  Anchor,
  AppShell,
  Box,
  Burger,
  Group,
  Kbd,
  NativeSelect,
  NavLink,
  Text,
  UnstyledButton,
  useComputedColorScheme,
  useMantineColorScheme,
} from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import { Link, Outlet, useNavigate } from "@tanstack/react-router";

import { signOut, useMe } from "../api/identity";
import { useConnection, useLostAt } from "../live/use-fleet";
import { LANGUAGES, useReading, useText, type Language } from "../messages/text";
import { useFormats } from "./formats";
import { Icon } from "./icons";
import { LiveMark } from "./live-mark";
import { openPalette, Palette } from "./palette";
import { PROGRAM } from "./page-title";
import { PAGE_USES, pagesFor } from "./pages";
import { Shortcuts } from "./shortcuts";

const PALETTE_KEYS = "Ctrl K";

/** What is around every page: the navigation, the reader's choices, the keyboard. */
export function Shell() {
  const { language, setLanguage, text } = useReading();
  const [opened, { toggle, close }] = useDisclosure(false);
  const me = useMe();
  const pages = pagesFor(me);
  const connection = useConnection();
  const lostAt = useLostAt();
  const [areKeysOpen, keys] = useDisclosure(false);
  return (
    <AppShell
      header={{ height: 56 }}
      navbar={{ width: 216, breakpoint: "sm", collapsed: { mobile: !opened } }}
      padding={{ base: "sm", xs: "lg" }}
    >
      <AppShell.Header>
        <Group h="100%" px={{ base: "xs", xs: "md" }} gap="xs" justify="space-between" wrap="nowrap">
          <Group gap="xs" wrap="nowrap">
            <Anchor href="#main" className="skip-link">
              {text("skipToPage")}
            </Anchor>
            <Burger
              opened={opened}
              onClick={toggle}
              hiddenFrom="sm"
              size="sm"
              aria-label={text("navigation")}
              aria-expanded={opened}
            />
            <UnstyledButton
              aria-label={PROGRAM}
              renderRoot={(props) => <Link to="/" {...props} />}
            >
              <Group gap={10} wrap="nowrap">
                <span className="logo" />
                <Text fw={700} className="wordmark">
                  {PROGRAM}
                </Text>
              </Group>
            </UnstyledButton>
          </Group>
          <Group gap="xs" wrap="nowrap">
            <Box visibleFrom="xs">
              {/* Of a lost connection a banner tells, on every width. */}
              <LiveMark connection={connection === "lost" ? "idle" : connection} />
            </Box>
            <UnstyledButton
              className="palette-button"
              onClick={openPalette}
              aria-label={`${text("palette")} ${PALETTE_KEYS}`}
              title={text("palette")}
            >
              <Icon name="search" />
              <Text span size="sm" visibleFrom="md">
                {text("palette")}{" "}
              </Text>
              <Kbd visibleFrom="md" size="xs">
                {PALETTE_KEYS}
              </Kbd>
            </UnstyledButton>
            <ThemeSwitch />
            <NativeSelect
              miw={106}
              aria-label={text("language")}
              data={Object.entries(LANGUAGES).map(([value, label]) => ({ value, label }))}
              value={language}
              onChange={(event) => {
                setLanguage(event.currentTarget.value as Language);
              }}
            />
          </Group>
        </Group>
      </AppShell.Header>
      <AppShell.Navbar p="xs" aria-label={text("navigation")}>
        {PAGE_USES.map((use) => (
          <Box key={use} className="nav-group">
            {pages
              .filter((page) => page.use === use)
              .map((page) => (
                <NavLink
                  key={page.path}
                  className="nav-link"
                  label={text(page.title)}
                  leftSection={<Icon name={page.icon} />}
                  onClick={close}
                  renderRoot={(props) => (
                    <Link to={page.path} activeOptions={{ exact: page.path === "/" }} {...props} />
                  )}
                />
              ))}
          </Box>
        ))}
        <Box className="nav-group">
          <NavLink
            className="nav-link"
            label={text("apiPages")}
            leftSection={<Icon name="api" />}
            onClick={close}
            renderRoot={(props) => <Link to="/docs" {...props} />}
          />
          {me?.auth === "keys" && <SignOutLink role={me.role} tenant={me.tenant_id} />}
        </Box>
      </AppShell.Navbar>
      <AppShell.Main>
        {lostAt !== null && <LostBanner at={lostAt} />}
        <Box id="main" tabIndex={-1} mod={{ old: lostAt !== null }}>
          <Outlet />
        </Box>
      </AppShell.Main>
      <Palette openKeys={keys.open} />
      <Shortcuts opened={areKeysOpen} open={keys.open} close={keys.close} />
    </AppShell>
  );
}

function LostBanner({ at }: { at: string }) {
  const text = useText();
  const formats = useFormats();
  return (
    <Alert className="lost-banner" color="red" variant="filled" role="alert" mb="md">
      {text("connectionLost", { time: formats.time(at) })}
    </Alert>
  );
}

function SignOutLink({ role, tenant }: { role: string; tenant: string }) {
  const text = useText();
  const navigate = useNavigate();
  return (
    <NavLink
      component="button"
      className="nav-link"
      label={text("signOut")}
      leftSection={<Icon name="signOut" />}
      description={`${role} · ${tenant}`}
      onClick={() => {
        void signOut().then(() => navigate({ to: "/sign-in" }));
      }}
    />
  );
}

function ThemeSwitch() {
  const { text } = useReading();
  const { setColorScheme } = useMantineColorScheme();
  const shown = useComputedColorScheme("light");
  const other = shown === "dark" ? "light" : "dark";
  return (
    <ActionIcon
      variant="default"
      size="lg"
      aria-label={text(other === "dark" ? "darkTheme" : "lightTheme")}
      onClick={() => {
        setColorScheme(other);
      }}
    >
      <Icon name={other === "dark" ? "moon" : "sun"} />
    </ActionIcon>
  );
}
