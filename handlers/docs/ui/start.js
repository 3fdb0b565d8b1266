SwaggerUIBundle({
  url: "docs/openapi.json",
  dom_id: "#reference",
  deepLinking: true,
  docExpansion: "list",
  defaultModelsExpandDepth: 0,
  tryItOutEnabled: true,
  displayRequestDuration: true,
  validatorUrl: null, // nothing leaves for another host
});
