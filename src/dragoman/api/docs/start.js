"use strict";

// A script of its own, because the page's policy forbids scripts inside it.
SwaggerUIBundle({
  dom_id: "#routes",
  url: document.getElementById("routes").dataset.openapi,
  deepLinking: true,
  // Otherwise the page would ask a validator on the internet about the document.
  validatorUrl: null,
});
