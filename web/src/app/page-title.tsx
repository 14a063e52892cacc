import { Title } from "@mantine/core";
import { useEffect } from "react";

export const PROGRAM = "Dragoman";

/** The title of a page: its heading, and what tabs, history and screen readers call it. */
export function PageTitle({ children }: { children: string }) {
  useDocumentTitle(children);
  return (
    <Title order={1} className="fact">
      {children}
    </Title>
  );
}

export function useDocumentTitle(title: string): void {
  useEffect(() => {
    document.title = `${title} · ${PROGRAM}`;
    return () => {
      document.title = PROGRAM;
    };
  }, [title]);
}
