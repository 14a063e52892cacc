import "@fontsource-variable/inter/wght.css";
import "@mantine/core/styles.css";
import "@mantine/spotlight/styles.css";
import "./app/console.css";

import { setNonce } from "get-nonce";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";

import { Console } from "./app/console";
import { styleNonce } from "./app/style-nonce";

// The component library adds style elements; the policy of the page allows those with the nonce.
setNonce(styleNonce());

const root = document.getElementById("root");
if (root === null) throw new Error("index.html has no element with the id root");
createRoot(root).render(
  <StrictMode>
    <Console />
  </StrictMode>,
);
