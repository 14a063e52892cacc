import { csrfToken, problemOf } from "../api/client";
import type { components } from "../api/schema";

export type Imported = components["schemas"]["ImportedDataset"];

interface Upload {
  path: string;
  form: FormData;
  /** Told the share of the bytes that were sent, 0 to 1. */
  onSent: (share: number) => void;
}

/** Send a file and tell how far it is; `fetch` cannot say that. */
export function upload({ path, form, onSent }: Upload): Promise<Imported> {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open("POST", path);
    const token = csrfToken();
    if (token !== null) request.setRequestHeader("X-CSRF-Token", token);
    request.responseType = "json";
    request.upload.onprogress = (event) => {
      if (event.lengthComputable) onSent(event.loaded / event.total);
    };
    request.onload = () => {
      if (request.status === 201) resolve(request.response as Imported);
      else reject(problemOf(request.response, request.status));
    };
    request.onerror = () => {
      reject(new Error("The connection was lost while the file was sent."));
    };
    request.send(form);
  });
}
