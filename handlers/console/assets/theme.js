// Sets the theme before anything is painted; app.js changes it.
(() => {
  try {
    const theme = localStorage.getItem("quorate.theme");
    if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
  } catch {
    // Without storage the system decides.
  }
})();
